/** What must compile of elections, and what must not: checked by `tsc`, never run. */
import { redlock } from "../../src/backends/redlock/open.js";
import { connect } from "../../src/connect.js";
import { election } from "../../src/election/open.js";
import type { Leadership } from "../../src/election/open.js";
import { memoryFence } from "../../src/fences/memory/open.js";

export async function stores(): Promise<void> {
  const correct = election(await connect("memory:"), "x");
  const backend = redlock(["redis://a", "redis://b", "redis://c"]);
  const without = await connect(backend, { purpose: "efficiency" });
  // @ts-expect-error no term could be told from another
  election(without, "x");
  const perhaps = await connect("redis://a", { purpose: "efficiency" });
  // @ts-expect-error its tokens may be undefined
  election(perhaps, "x");
  const term: Leadership = await correct.campaign();
  await memoryFence().arm(term, "report");
  const answer: number = await correct.lead(async ({ term: t }) => Number(t > 3n), {
    signal: term.signal,
  });
  void answer;
  for await (const leader of correct.observe()) {
    const newest: bigint | undefined = leader?.term;
    void newest;
    // @ts-expect-error what is seen of a leader is no proof: no fence takes it
    await memoryFence().arm(leader!, "report");
  }
}
