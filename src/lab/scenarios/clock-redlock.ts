/** C. A majority of independent servers, one of which is wrong about the time, or forgets. */
import { Tenure } from "../../core/tenure.js";
import { createFence } from "../../fences/fence.js";
import { memoryStore } from "../../fences/memory/index.js";
import { refusalOf } from "../hand.js";
import type { Client, Simulation } from "../simulation.js";
import { redlockMasters, type Master, type RedlockMasters } from "../stores/masters.js";
import { endOf, grantOf, looksAt, noted } from "./reading.js";
import type { Scenario, ScenarioResult } from "./scenario.js";
import { must, mustHold, mustLose } from "./scenario.js";

const TTL_MS = 10_000;
const OPEN_MS = 10_000;
/** A writes before its first renewal; B has read by then, and writes later. */
const FIRST = { turns: 1, restMs: [0, 0], thinkMs: [2_600, 2_700], ttlMs: TTL_MS } as const;
const SECOND = { turns: 9, restMs: [300, 400], thinkMs: [3_000, 3_500], ttlMs: TTL_MS } as const;

interface Pair {
  readonly first: Client;
  readonly second: Client;
  /** The server that both of them reach. */
  readonly between: Master;
}

/** A reaches r1, r2 and r3, and B reaches r3, r4 and r5. */
async function pairOn(sim: Simulation): Promise<Pair> {
  const { masters } = sim.store as RedlockMasters;
  const open = (name: string): Promise<Client> => sim.world.until(sim.client(name), OPEN_MS);
  const [first, second] = [await open("A"), await open("B")];
  for (const name of ["r4", "r5"]) sim.network.isolate("A", name);
  for (const name of ["r1", "r2"]) sim.network.isolate("B", name);
  return { first, second, between: masters[2]! };
}

/** Both want one name; `strike` comes while A thinks. */
function contend(sim: Simulation, pair: Pair, key: string, strike: () => void): void {
  const { first, second } = pair;
  first.process.onPoint("read", () => sim.world.after(200, strike));
  const about = { key, resource: key, heeds: false } as const;
  const isDone = (): boolean =>
    sim.world.history.of("acked").some(({ client, resource }) =>
      client === "B" && resource === key);
  void sim.work(first, { ...FIRST, ...about });
  void sim.work(second, { ...SECOND, ...about, isOver: isDone });
}

/** What the interface says of such a lease: it is refused where work may not be done twice. */
async function noteGuarantee(sim: Simulation, { first }: Pair): Promise<void> {
  const { process, tenure } = first;
  const backend = sim.store.backend!(process, sim.network);
  const note = (text: string): void =>
    sim.world.history.add({ kind: "note", client: "A", text });
  const refusal = await refusalOf(Tenure.open(backend, process.runtime));
  note(`opened for correctness: ${refusal?.code}`);
  const lease = await sim.world.until(tenure.acquire("advice", { ttl: TTL_MS }), OPEN_MS);
  const fence = createFence(memoryStore(), process.runtime);
  const refused = await fence.arm(lease as never, "anything").then(
    () => "armed",
    (error: unknown) => (error instanceof TypeError ? "no token" : String(error)),
  );
  note(`a fence is given its lease: ${refused}`);
  await sim.world.until(lease.release(), OPEN_MS);
}

/** Both believed in the lease at the same time, and the servers had let one of them go early. */
function mustOverlap(result: ScenarioResult, key: string): void {
  const [first, second] = [grantOf(result, key, "A"), grantOf(result, key, "B")];
  const { early } = endOf(result, first);
  must(early === true, `the majority of A for ${key} did not end early`);
  const [sure] = looksAt(result, second);
  const last = looksAt(result, first).at(-1);
  must(sure !== undefined && last !== undefined, `somebody was not granted ${key}`);
  const isBoth = last!.kind === "believes" && last!.atMs > sure!.atMs;
  must(isBoth, `A and B never believed in ${key} at the same time`);
}

export const clockRedlockScenarios: readonly Scenario[] = [
  {
    id: 22,
    name: "redlock-clock",
    title: "Redlock on five servers: the clock of the one that both clients reach is set ahead.",
    options: { store: redlockMasters },
    async play(sim) {
      const pair = await pairOn(sim);
      await noteGuarantee(sim, pair);
      contend(sim, pair, "job", () => pair.between.jumpWall(TTL_MS));
      await sim.world.run(sim.world.nowMs + 60_000);
    },
    check(result) {
      mustHold(result);
      // Neither has a token. Given one that all share, an armed resource takes one of them only.
      mustLose(result, ["none", "naive"]);
      mustOverlap(result, "job");
      const [opening, arming] = noted(result, "A");
      const isRefused = opening === "opened for correctness: TENURE_GUARANTEE";
      must(isRefused, `it was not refused: ${opening}`);
      must(arming === "a fence is given its lease: no token", `it was taken: ${arming}`);
    },
  },
  {
    id: 23,
    name: "redlock-amnesia",
    title: "Redlock: the server between them restarts empty, then later, then by a wrong clock.",
    options: { store: redlockMasters },
    async play(sim) {
      const pair = await pairOn(sim);
      const { between } = pair;
      contend(sim, pair, "at-once", () => between.crash(10));
      await sim.world.run(60_000);
      // The remedy: it stays away for as long as any lease may live that it has forgotten.
      contend(sim, pair, "delayed", () => between.crash(TTL_MS));
      await sim.world.run(120_000);
      // Which it measures with a clock.
      contend(sim, pair, "delayed-by-clock", () => {
        between.crash(TTL_MS);
        sim.world.after(10, () => between.jumpWall(TTL_MS));
      });
      await sim.world.run(180_000);
    },
    check(result) {
      mustHold(result);
      mustLose(result, ["none", "naive"]);
      mustOverlap(result, "at-once");
      mustOverlap(result, "delayed-by-clock");
      const stop = result
        .of("stops")
        .find(({ key, client }) => key === "delayed" && client === "A");
      const next = grantOf(result, "delayed", "B");
      must(stop !== undefined && stop.atMs <= next.atMs, "a server that stays away let B in early");
    },
  },
];
