/** To look at: two locks that are often built, and what becomes of them. */
import { NotAcquiredError } from "../../core/errors.js";
import { Hand, refusalOf, tell } from "../hand.js";
import { singleStore, type Simulation } from "../simulation.js";
import { must, mustBreak, mustLose, type Scenario } from "./scenario.js";

const TTL_MS = 10_000;

export const lookLockScenarios: readonly Scenario[] = [
  {
    id: 0,
    name: "blind-delete",
    title: "A store that deletes a lock without comparing its holder: A gives back what is B's.",
    options: { store: singleStore({ flaw: "release-any" }) },
    play: (sim) => tell(sim, () => deleteBlindly(sim)),
    check(result) {
      // B goes on with a lease that it was robbed of, and its deadline is no help.
      mustBreak(result, ["I2"], ["I5", "I7"]);
      mustLose(result, ["none"]);
      must(result.grants === 3, `${result.grants} grants instead of three`);
    },
  },
  {
    id: 0,
    name: "setnx-then-expire",
    title: "A lock whose time is set by a second command; its holder dies between the two.",
    options: { store: singleStore({ flaw: "value-then-expiry" }) },
    play: (sim) => tell(sim, () => dieBetween(sim), 2_000_000),
    check(result) {
      // Nobody has the name, so nothing is written, and no fence is of any use.
      mustBreak(result, ["I11"]);
      mustLose(result, []);
      const [a, b] = result.of("grant");
      const broken = result.of("end").find(({ why }) => why === "broken");
      must(broken !== undefined, "nobody had to break the lock");
      const forMs = broken!.atMs - a!.atMs;
      must(forMs > 50 * TTL_MS, `the dead holder's lock ended after ${forMs} ms`);
      must(b!.atMs > broken!.atMs, "B had the lock before it was broken");
    },
  },
];

async function deleteBlindly(sim: Simulation): Promise<void> {
  const a = await Hand.take(sim, await sim.client("A"), { ttlMs: TTL_MS });
  a.client.process.pause();
  const b = await Hand.take(sim, await sim.client("B"), { ttlMs: TTL_MS });
  await b.open();
  await b.read();
  a.client.process.resume();
  must((await a.release()) === "released", "the store compared the holder");
  const c = await Hand.take(sim, await sim.client("C"), { ttlMs: TTL_MS });
  must(b.look() === "held", "B knew at once, so this shows nothing");
  await c.open();
  await c.read();
  await c.write();
  await refusalOf(b.write());
  await c.release();
}

async function dieBetween(sim: Simulation): Promise<void> {
  const a = await Hand.take(sim, await sim.client("A"), { ttlMs: TTL_MS });
  a.client.process.kill();
  const b = await sim.client("B");
  const error = await refusalOf(Hand.take(sim, b, { ttlMs: TTL_MS, waitMs: 60 * TTL_MS }));
  must(error instanceof NotAcquiredError, "B had the lock of a dead holder");
  // Only somebody who knows that A is dead can help.
  await b.tenure.break("job", { token: a.token, reason: "its holder is dead" });
  const next = await Hand.take(sim, b, { ttlMs: TTL_MS });
  await next.release();
}
