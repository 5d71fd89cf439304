/** An extension that is under way while its holder ends what it holds. */
import { expect, it } from "vitest";
import { now } from "../../../src/core/deadline.js";
import { toToken } from "../../../src/core/token.js";
import { HeldJob } from "../../../src/queue/job.js";
import { HeldFire } from "../../../src/schedule/fire.js";
import { simulatedRuntime } from "../../../src/testing/simulated-runtime.js";

type Answer = (value: unknown) => void;

/** A store whose calls wait for their answers. */
function heldIn(make: (store: any, runtime: any, holding: any) => any) {
  const world = simulatedRuntime({ seed: 3 });
  const calls = new Map<string, { answer: Answer; refuse: (error: Error) => void }>();
  const store = {
    storeId: "s",
    run: (during: string) =>
      new Promise((answer, refuse) => calls.set(during.split(" ")[0]!, { answer, refuse })),
  };
  const { runtime } = world;
  const holding = { holder: "h", leaseMs: 3_000, sentAt: now(runtime.clock) };
  return { world, calls, held: make(store, runtime, holding) };
}

const TOKEN = toToken(5n);
const job = (store: any, runtime: any, holding: any) =>
  new HeldJob(
    store,
    runtime,
    { key: "k", seq: 1n, id: "i", payload: "1", token: TOKEN, tries: 1 },
    { ...holding, queue: "jobs", maxTries: 5 },
  );
const fire = (store: any, runtime: any, holding: any) =>
  new HeldFire(store, runtime, { fireMs: 0, token: TOKEN, tries: 1 }, { ...holding, name: "n" });

it.each([
  ["a job that completes", job, "complete", (held: any) => held.complete(), undefined],
  ["a job that is given back", job, "give", (held: any) => held.fail(), "retry"],
  ["a run that is done", fire, "complete", (held: any) => held.settle(), undefined],
  ["a run that has failed", fire, "end", (held: any) => held.fail("why"), undefined],
] as const)("tells of no loss: %s", async (_what, make, name, end, answer) => {
  const { world, calls, held } = heldIn(make);
  const extending = held.extend();
  const ending = end(held);
  calls.get("extend")!.answer(false);
  await world.advance(1);
  calls.get(name)!.answer(answer);
  await Promise.all([ending, extending]);
  expect(world.events).toEqual([]);
  expect(held.signal.aborted).toBe(false);
});

it("tells of the loss where the end was refused", async () => {
  const { world, calls, held } = heldIn(job);
  const extending = expect(held.extend()).rejects.toMatchObject({ reason: "taken" });
  const ending = expect(held.complete()).rejects.toThrow("refused");
  calls.get("extend")!.answer(false);
  await world.advance(1);
  expect(world.events).toEqual([]);
  calls.get("complete")!.refuse(new Error("refused"));
  await Promise.all([ending, extending]);
  expect(world.events.map(({ type }) => type)).toEqual(["lost"]);
});
