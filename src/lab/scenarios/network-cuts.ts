/** B. The holder cannot reach its store, or reaches it late; its resource it can reach. */
import { keep } from "../keeping.js";
import { connectionStore, type ConnectionStore } from "../stores/connection-store.js";
import {
  endOf, faultOf, grantOf, lastExtendedMs, looksAt, mustFollow, stopOf,
} from "./reading.js";
import type { Scenario } from "./scenario.js";
import { must, mustHold, mustLose } from "./scenario.js";

const TTL_MS = 10_000;
/** What a holder leaves of its TTL: 1 % and 2 ms, and the grace in which its work may stop. */
const MARGIN_MS = 102;
const GRACE_MS = 1_000;
const BOUND_MS = 1_100;
const TURN = { turns: 1, restMs: [0, 0], ttlMs: TTL_MS } as const;
const NEXT = { ...TURN, restMs: [300, 400], thinkMs: [100, 200] } as const;
const CUTS = [["A", "B", "both-ways"], ["C", "D", "requests"], ["E", "F", "answers"]] as const;
const SLOW_MS = 2_200;
/** How long a call may take: the default. */
const CALL_MS = 5_000;

export const networkCutScenarios: readonly Scenario[] = [
  {
    id: 14,
    name: "cut-from-store",
    title: "Holders are cut from their store, in both directions or in one, not from the resource.",
    async play(sim) {
      for (const [first, second, key] of CUTS) {
        const [holder, next] = [await sim.client(first), await sim.client(second)];
        holder.process.onPoint("read", () => {
          if (key !== "answers") sim.network.cut(first, "store");
          if (key !== "requests") sim.network.cut("store", first);
        });
        // It goes on after its lease, and asks nobody: what the signal is for.
        const deaf = { thinkMs: [35_000, 36_000], checks: false, heeds: false } as const;
        void sim.work(holder, { ...TURN, ...deaf, key, resource: key });
        void sim.work(next, { ...NEXT, key, resource: key });
      }
      await sim.world.run(60_000);
    },
    check(result) {
      mustHold(result);
      mustLose(result, ["none"]);
      for (const [first, second, key] of CUTS) {
        const grant = grantOf(result, key, first);
        const extendedMs = lastExtendedMs(result, grant);
        const isUnheard = key === "answers" && extendedMs > grant.atMs;
        must(key !== "answers" || isUnheard, "no renewal came through that was not answered");
        // Counted from the last request that was answered: the first.
        const lastMs = TTL_MS - MARGIN_MS;
        const stop = stopOf(result, grant);
        must(stop.why === "deadline", `${first} stopped because of: ${stop.why}`);
        const signalMs = grant.atMs + lastMs - GRACE_MS;
        mustFollow(stop.atMs, signalMs - 50, 50, `the signal of ${first}`);
        const next = grantOf(result, key, second);
        mustFollow(next.atMs, extendedMs + TTL_MS, BOUND_MS, `the grant to ${second}`);
      }
    },
  },
  {
    id: 15,
    name: "silent-reconnect",
    title: "The connection that has the lock breaks, and its client goes on with another one.",
    options: { store: (world) => connectionStore(world) },
    async play(sim) {
      const store = sim.store as ConnectionStore;
      const [a, b] = [await sim.client("A"), await sim.client("B")];
      a.process.onPoint("read", () => store.reset("job"));
      const deaf = { thinkMs: [5_000, 6_000], checks: false, heeds: false } as const;
      void sim.work(a, { ...TURN, ...deaf });
      void sim.work(b, NEXT);
      await sim.world.run(6 * TTL_MS);
    },
    check(result) {
      mustHold(result);
      // Until its next renewal the holder cannot know: only the fence refuses its write.
      mustLose(result, ["none"]);
      const grant = grantOf(result, "job", "A");
      const end = endOf(result, grant);
      must(end.early === true, "the server did not let go of the lock with its connection");
      const stop = stopOf(result, grant);
      must(stop.why === "session", `A stopped because of: ${stop.why}`);
      mustFollow(stop.atMs, end.atMs, TTL_MS / 3 + 100, "what A was told at its next renewal");
      const since = looksAt(result, grant).filter(({ atMs }) => atMs > stop.atMs);
      must(since.length === 0, "A believed in its lock again on another connection");
      mustFollow(grantOf(result, "job", "B").atMs, end.atMs, BOUND_MS, "the grant to B");
    },
  },
  {
    id: 16,
    name: "slow-store",
    title: "Answers take longer than a renewal's interval; then the store stands still, and again.",
    async play(sim) {
      const [a, b] = [await sim.client("A"), await sim.client("B")];
      const { server } = sim.store.find();
      let isSlow = true;
      const slowly = (): { holdMs: number } | undefined =>
        isSlow ? { holdMs: SLOW_MS } : undefined;
      sim.network.always({ from: "A", to: "store" }, slowly);
      sim.network.always({ from: "store", to: "A" }, slowly);
      void keep(sim, a, { key: "job", ttlMs: TTL_MS, forMs: 110_000 });
      void sim.work(b, { ...NEXT, waitMs: 200_000 });
      sim.world.at(40_000, () => (isSlow = false));
      sim.world.at(50_000, () => server.pauseFor(TTL_MS / 2));
      sim.world.at(70_000, () => server.pauseFor(3 * TTL_MS));
      await sim.world.run(140_000);
    },
    check(result) {
      mustHold(result);
      // Nothing is written late here: the fence makes no difference.
      mustLose(result, []);
      const grant = grantOf(result, "job", "A");
      const stop = stopOf(result, grant);
      const longMs = 70_000;
      mustFollow(stop.atMs, longMs, TTL_MS, "losing it, at its deadline and no sooner,");
      must(stop.why === "deadline", `A stopped because of: ${stop.why}`);
      // Each answer counts from when its question was sent, 4.4 s and more before.
      const most = Math.max(...looksAt(result, grant)
        .filter(({ atMs }) => atMs < 40_000)
        .map(({ leftMs }) => leftMs ?? 0));
      must(most <= TTL_MS - MARGIN_MS - 2 * SLOW_MS, `A believed in ${most} ms more`);
      const asked = result
        .of("message")
        .filter(({ from, what, sentMs }) => from === "A" && what === "renew" && sentMs > longMs);
      // At most three are under way, so the fourth leaves no sooner than the first has ended.
      const piled = asked.filter(
        ({ sentMs }, i) => sentMs - (asked[i - 3]?.sentMs ?? -Infinity) < CALL_MS,
      );
      must(piled.length === 0, `${asked.length} renewals piled up at a store that stood still`);
      must(asked.length <= 5, `${asked.length} renewals in the last two thirds of a TTL`);
      faultOf(result, "resume", "store");
    },
  },
];
