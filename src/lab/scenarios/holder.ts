/** A. The holder stops. */
import type { Scenario } from "./scenario.js";
import { must, mustHold, mustLose } from "./scenario.js";

const TTL_MS = 10_000;
const ONE_TURN = { turns: 1, restMs: [0, 0], ttlMs: TTL_MS, heeds: false } as const;

export const holderScenarios: readonly Scenario[] = [
  {
    id: 1,
    name: "paused-holder",
    title: "The holder is paused past its TTL between its last look at the clock and its write.",
    async play(sim) {
      const a = await sim.client("A");
      const b = await sim.client("B");
      a.process.onPoint("checked", () => a.process.pauseFor(2 * TTL_MS));
      void sim.work(a, ONE_TURN);
      void sim.work(b, { ...ONE_TURN, restMs: [500, 600] });
      await sim.world.run(6 * TTL_MS);
    },
    check(result) {
      mustHold(result);
      mustLose(result, ["none"]);
      must(result.grants === 2, `${result.grants} grants instead of two`);
      must(result.fence === "none" || result.staleRefused > 0, "the stale write was not refused");
    },
  },
  {
    id: 2,
    name: "first-write-hole",
    title: "The paused holder's write arrives when the next holder has read, and not yet written.",
    async play(sim) {
      const a = await sim.client("A");
      const b = await sim.client("B");
      a.process.onPoint("checked", () => a.process.pause());
      b.process.onPoint("read", () => a.process.resume());
      void sim.work(a, ONE_TURN);
      void sim.work(b, { ...ONE_TURN, restMs: [500, 600], thinkMs: [1_000, 2_000] });
      await sim.world.run(6 * TTL_MS);
    },
    check(result) {
      mustHold(result);
      // The mark of a fence that looks at writes alone is still the old holder's.
      mustLose(result, ["none", "naive"]);
    },
  },
  {
    id: 3,
    name: "late-packet",
    title: "The holder lives; its write is held up in the network for 90 seconds.",
    async play(sim) {
      const a = await sim.client("A");
      const b = await sim.client("B");
      sim.network.plan = ({ from, what, nth }) =>
        from === "A" && what === "write" && nth === 1 ? { holdMs: 90_000 } : undefined;
      void sim.work(a, ONE_TURN);
      void sim.work(b, { ...ONE_TURN, restMs: [500, 600] });
      await sim.world.run(120_000);
    },
    check(result) {
      mustHold(result);
      mustLose(result, ["none"]);
    },
  },
  {
    id: 5,
    name: "pause-after-check",
    title: "The holder is stopped at the very await between its check and its write.",
    async play(sim) {
      const a = await sim.client("A");
      const b = await sim.client("B");
      a.process.onPoint("checked", () => a.process.pauseFor(TTL_MS + 1_500));
      void sim.work(a, ONE_TURN);
      void sim.work(b, { turns: 3, restMs: [100, 200], ttlMs: TTL_MS, thinkMs: [10, 50] });
      await sim.world.run(6 * TTL_MS);
    },
    check(result) {
      mustHold(result);
      mustLose(result, ["none"]);
    },
  },
  {
    id: 6,
    name: "blocked-loop",
    title: "The holder's event loop is blocked for three TTLs while it thinks.",
    async play(sim) {
      const a = await sim.client("A");
      const b = await sim.client("B");
      a.process.onPoint("read", () => a.process.pauseFor(3 * TTL_MS));
      // It writes whatever it sees.
      void sim.work(a, { ...ONE_TURN, checks: false });
      void sim.work(b, { ...ONE_TURN, restMs: [500, 600] });
      await sim.world.run(8 * TTL_MS);
    },
    check(result) {
      mustHold(result);
      mustLose(result, ["none"]);
      const resumed = result.of("fault").find(({ what }) => what === "resume");
      const stopped = result.of("stops").find(({ client }) => client === "A");
      must(stopped?.atMs === resumed?.atMs, "the holder did not see the loss in its first turn");
    },
  },
];
