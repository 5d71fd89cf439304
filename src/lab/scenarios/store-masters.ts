/** F. A majority of independent servers stops together. */
import { TokenConflictError } from "../../core/errors.js";
import { Hand, refusalOf, tell } from "../hand.js";
import type { Simulation } from "../simulation.js";
import { redlockMasters, type RedlockMasters } from "../stores/masters.js";
import { endOf, grantOf, looksAt, stopOf } from "./reading.js";
import { must, mustHold, mustLose, type Scenario } from "./scenario.js";

const TTL_MS = 10_000;

export const storeMasterScenarios: readonly Scenario[] = [
  {
    id: 42,
    name: "correlated-stop",
    title: "Redlock: three of five servers restart empty together; later three freeze together.",
    options: { store: redlockMasters },
    play: (sim) =>
      tell(sim, async () => {
        await restartTogether(sim);
        await freezeTogether(sim);
      }),
    check(result) {
      mustHold(result);
      // No tokens: given one that all share, an armed resource takes the first and nobody else.
      mustLose(result, ["none", "naive"]);
      const [a, b] = [grantOf(result, "restarted", "A"), grantOf(result, "restarted", "B")];
      must(endOf(result, a).why === "forgotten", "the servers did not forget A");
      const last = looksAt(result, a).findLast(({ kind }) => kind === "believes");
      must((last?.atMs ?? 0) > b.atMs, "A and B never believed in it at the same time");
      // Servers that only stood still have forgotten nothing: one after the other.
      const told = stopOf(result, grantOf(result, "frozen", "A"));
      const next = grantOf(result, "frozen", "B");
      must(told.why === "deadline", `A was told of the frozen servers by ${told.why}`);
      must(told.atMs < next.atMs, "B had the lease before A was told that its time is over");
    },
  },
];

async function restartTogether(sim: Simulation): Promise<void> {
  const { masters } = sim.store as RedlockMasters;
  const key = "restarted";
  const a = await Hand.take(sim, await sim.client("A"), { key, ttlMs: TTL_MS });
  await a.open();
  await a.read();
  for (const master of masters.slice(2)) master.crash(10);
  await sim.world.pass(20);
  const b = await Hand.take(sim, await sim.client("B"), { key, ttlMs: TTL_MS });
  must(b.look() === "held" && a.look() === "held", "one of the two holders knew better");
  const conflict = await refusalOf(b.open());
  const isArmed = sim.resource.mode === "armed";
  must(conflict instanceof TokenConflictError === isArmed, "B opened it otherwise than it must");
  if (!isArmed) {
    await b.read();
    await b.write();
  }
  await refusalOf(a.write());
  await b.release();
  await a.release();
}

async function freezeTogether(sim: Simulation): Promise<void> {
  const { masters } = sim.store as RedlockMasters;
  const [first, second] = sim.clients;
  const key = "frozen";
  const a = await Hand.take(sim, first!, { key, ttlMs: TTL_MS });
  for (const { server } of masters.slice(2)) server.pauseFor(2 * TTL_MS);
  const early = await refusalOf(second!.tenure.tryAcquire(key, { ttl: TTL_MS }));
  must(early !== undefined, "a minority of servers answered B");
  await sim.world.pass(2 * TTL_MS);
  must(a.look() === "lost", `after two TTLs without a majority A's lease is ${a.look()}`);
  const b = await Hand.take(sim, second!, { key, ttlMs: TTL_MS });
  await b.release();
}
