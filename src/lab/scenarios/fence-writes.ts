/** E. The fence itself: many writes, steps that are two, and writes that come late. */
import type { FenceStore, Ran } from "../../fences/contract.js";
import { memoryStore, type Cell, type Entry, type ReadCell } from "../../fences/memory/index.js";
import { Hand, refusalOf, tell } from "../hand.js";
import type { SimulatedProcess } from "../process.js";
import { Simulation } from "../simulation.js";
import { must, mustHold, mustLose, type Scenario } from "./scenario.js";

const TTL_MS = 10_000;
const MANY = 25;
const ONE_TURN = { turns: 1, restMs: [0, 0], ttlMs: TTL_MS, heeds: false } as const;

export const fenceWriteScenarios: readonly Scenario[] = [
  {
    id: 30,
    name: "many-writes",
    title: "One holder writes many times, and so does the next: all of it is accepted.",
    async play(sim) {
      const turn = { ...ONE_TURN, writes: MANY, thinkMs: [10, 50] } as const;
      void sim.work(await sim.client("A"), turn);
      void sim.work(await sim.client("B"), { ...turn, restMs: [500, 600] });
      await sim.world.run(6 * TTL_MS);
    },
    check(result) {
      mustHold(result);
      // Nothing goes wrong here, so no fence has anything to refuse.
      mustLose(result, []);
      must(result.staleRefused === 0, `${result.staleRefused} operations were refused`);
      for (const client of ["A", "B"]) {
        const acked = result.of("acked").filter((event) => event.client === client);
        const done = acked.filter(({ outcome }) => outcome === "ok").length;
        must(done === MANY, `${done} of ${MANY} writes of ${client} were acknowledged`);
      }
    },
  },
  {
    id: 31,
    name: "check-not-atomic",
    title: "A write reaches the register as the next holder opens it: in one step, or in two.",
    async play(sim) {
      await interleave(sim);
      if (sim.resource.mode !== "armed") return;
      const { seed } = sim.world;
      const resource = { store: checkThenWrite };
      const twoSteps = new Simulation({ seed, fence: "armed", resource });
      await interleave(twoSteps);
      const { lostUpdates, violations } = twoSteps.outcome();
      must(lostUpdates > 0, "a register that checks first and writes later lost nothing");
      must(
        violations.some(({ invariant }) => invariant === "I4"),
        "a register that checks first and writes later kept to the rules",
      );
      const text = `checked first and written 200 ms later, the same lost ${lostUpdates} updates`;
      sim.world.history.add({ kind: "note", text });
    },
    check(result) {
      mustHold(result);
      // The write is whole before the next holder reads: here the fence makes no difference.
      mustLose(result, []);
      const writes = result.of("write").filter(({ accepted }) => accepted);
      must(writes.length === 2, `${writes.length} writes were accepted instead of two`);
    },
  },
  {
    id: 32,
    name: "own-late-write",
    title: "A holder's write times out and lands after the same holder's next one.",
    play: (sim) => tell(sim, () => writeLate(sim)),
    check(result) {
      mustHold(result);
      // Both writes carry the same token, so comparing tokens does not tell them apart.
      mustLose(result, ["none", "naive"]);
      const [first, second] = result.of("acked");
      must(first?.outcome === "unknown", `the first write ended as ${first?.outcome}`);
      must(second?.outcome === "ok", `the second write ended as ${second?.outcome}`);
      const late = result.of("write").at(-1);
      must(
        late?.accepted === (result.fence !== "armed"),
        `the late write was ${late?.accepted === true ? "accepted" : "refused"}`,
      );
      must(result.fence !== "armed" || late?.why === "superseded", `refused as ${late?.why}`);
    },
  },
];

/** A's write reaches the register just before its next holder B opens it. */
async function interleave(sim: Simulation): Promise<void> {
  const a = await sim.client("A");
  const b = await sim.client("B");
  a.process.onPoint("checked", () => a.process.pause());
  b.process.onPoint("granted", () => {
    a.process.resume();
    // Its messages of the beginning wait until A's write has arrived.
    const untilMs = sim.world.nowMs + 1;
    sim.network.plan = ({ from, to }) => {
      const isFirst = from === "B" && to === "resource" && sim.world.nowMs < untilMs;
      return isFirst ? { holdMs: 50 } : undefined;
    };
  });
  void sim.work(a, ONE_TURN);
  void sim.work(b, { ...ONE_TURN, restMs: [500, 600], thinkMs: [1_000, 2_000] });
  await sim.world.run(6 * TTL_MS);
}

/** Looks at the mark, and writes 200 ms later whatever has happened meanwhile. */
function checkThenWrite(
  entries: Map<string, Entry<number>>,
  server: SimulatedProcess,
): FenceStore<Cell<number>, ReadCell<number>> {
  const inner = memoryStore(entries);
  return {
    ...inner,
    write: async (request, work, call) => {
      const checked = await inner.read(request, () => undefined, call);
      if (!checked.accepted) return checked;
      await server.sleep(200);
      let value = entries.get(request.resource)?.value;
      const set = (next: number | undefined): void => void (value = next);
      const result = work({ get: () => value, set, delete: () => set(undefined) });
      const { record } = entries.get(request.resource)!;
      entries.set(request.resource, { record, value });
      return { accepted: true, result } as Ran<never>;
    },
  };
}

async function writeLate(sim: Simulation): Promise<void> {
  const heldMs = 9_000;
  sim.network.plan = ({ from, what, nth }) =>
    from === "A" && what === "write" && nth === 1 ? { holdMs: heldMs } : undefined;
  const a = await Hand.take(sim, await sim.client("A"), { ttlMs: 3 * TTL_MS });
  await a.open();
  await a.read();
  const error = await refusalOf(a.write());
  must(error?.family === "unknown", "the first write was answered");
  await a.read();
  await a.write();
  await sim.world.pass(heldMs);
  await a.release();
}
