/** F. Release: it meets a renewal, comes twice, comes late, and is never anybody else's end. */
import { Hand, refusalOf, tell } from "../hand.js";
import type { Client, Simulation } from "../simulation.js";
import { must, mustHold, mustLose, type Scenario } from "./scenario.js";

const TTL_MS = 10_000;
const LATE_MS = 3_000;

export const storeReleaseScenarios: readonly Scenario[] = [
  {
    id: 38,
    name: "release-races",
    title: "A release meets a renewal under way, comes twice, and comes after the takeover.",
    play: (sim) =>
      tell(sim, async () => {
        const [a, b] = [await sim.client("A"), await sim.client("B")];
        await overtakeRenewal(sim, a, b);
        await releaseTwice(sim, a, b);
        await releaseLate(sim, a, b);
        await cleanUpLate(sim, a, b);
      }),
    check(result) {
      mustHold(result);
      // The store has one holder at any time, so there is nothing for a fence to refuse.
      mustLose(result, []);
      for (const { key, by, holder, why } of result.of("end")) {
        must(by === undefined || by === holder, `${key} was ended by ${by}`);
        must(why === "released" || key === "late", `${key} ended as ${why}`);
      }
    },
  },
];

/** B has the name now; whatever arrives of A leaves it alone. */
async function mustKeep(sim: Simulation, b: Client, key: string): Promise<void> {
  const next = await Hand.take(sim, b, { key, ttlMs: TTL_MS });
  await next.open(key);
  await next.read(key);
  await sim.world.pass(2 * LATE_MS);
  must(next.look() === "held", `B's lease of ${key} is ${next.look()}`);
  const shown = await b.tenure.inspect(key);
  must(shown?.holder === next.lease.holder, `the store shows ${shown?.holder} for ${key}`);
  await next.write(key);
  must((await next.release()) === "released", `B's lease of ${key} had been taken from it`);
}

/** Holds back the next message of a kind from A. */
function holdBack(sim: Simulation, what: string): void {
  let isDone = false;
  sim.network.plan = (message) => {
    if (isDone || message.from !== "A" || message.what !== what) return undefined;
    isDone = true;
    return { holdMs: LATE_MS };
  };
}

async function overtakeRenewal(sim: Simulation, a: Client, b: Client): Promise<void> {
  const key = "renewal under way";
  const hand = await Hand.take(sim, a, { key, ttlMs: TTL_MS });
  holdBack(sim, "renew");
  const renewing = refusalOf(hand.lease.renew());
  must((await hand.release()) === "released", "A's release did not overtake its renewal");
  await mustKeep(sim, b, key);
  const error = await renewing;
  must(error !== undefined, "A was told that a lease it had given back was renewed");
}

async function releaseTwice(sim: Simulation, a: Client, b: Client): Promise<void> {
  const key = "twice";
  const hand = await Hand.take(sim, a, { key, ttlMs: TTL_MS });
  // Once more on the wire, too.
  sim.network.plan = ({ from, what }) =>
    from === "A" && what === "release" ? { againAfterMs: LATE_MS } : undefined;
  const answers = await Promise.all([hand.release(), hand.release()]);
  must(answers[0] === "released", `the first release was answered ${answers[0]}`);
  sim.network.plan = () => undefined;
  const keeping = mustKeep(sim, b, key);
  await sim.world.pass(LATE_MS);
  await hand.release();
  await keeping;
}

async function releaseLate(sim: Simulation, a: Client, b: Client): Promise<void> {
  const key = "late";
  const hand = await Hand.take(sim, a, { key, ttlMs: TTL_MS });
  a.process.pause();
  sim.world.after(TTL_MS + LATE_MS, () => a.process.resume());
  const keeping = mustKeep(sim, b, key);
  await sim.world.pass(TTL_MS + LATE_MS + 10);
  const answer = await hand.release();
  must(answer === "not-held", `the release after the takeover was answered ${answer}`);
  await keeping;
}

/** The clean-up of a wait that was cancelled arrives when its process has the name again. */
async function cleanUpLate(sim: Simulation, a: Client, b: Client): Promise<void> {
  const key = "clean-up";
  const controller = new AbortController();
  sim.network.plan = ({ to, what }) => {
    if (to !== "A" || what !== "acquire reply" || controller.signal.aborted) return undefined;
    // Granted in the store, and cancelled before A hears of it.
    controller.abort(key);
    holdBack(sim, "release");
    return undefined;
  };
  const { signal } = controller;
  await a.tenure.acquire(key, { ttl: TTL_MS, signal }).catch((error: unknown) => {
    if (error !== key) throw error;
  });
  must(signal.aborted, "A was not cancelled");
  await mustKeep(sim, b, key);
}
