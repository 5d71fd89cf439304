/** To look at: what a TTL costs, in one picture. */
import type { Scenario } from "./scenario.js";
import { must, mustHold, mustLose } from "./scenario.js";

const TTLS_S = [1, 3, 9, 27] as const;
const PAUSE_MS = 5_000;
/** By now everybody has paused, woken up and written. */
const CRASH_AT_MS = 60_000;

export const lookTtlScenarios: readonly Scenario[] = [
  {
    id: 0,
    name: "ttl-curve",
    title: "One pause and one crash under four TTLs: the short ones overlap, the long ones wait.",
    async play(sim) {
      const { world } = sim;
      for (const seconds of TTLS_S) {
        const [a, b] = [await sim.client(`A-${seconds}s`), await sim.client(`B-${seconds}s`)];
        const about = { key: `job-${seconds}s`, resource: `account-${seconds}s` };
        const options = { ...about, ttlMs: seconds * 1_000, thinkMs: [100, 200] } as const;
        a.process.onPoint("checked", () => a.process.pauseFor(PAUSE_MS));
        void sim.work(a, { ...options, turns: 1, restMs: [0, 0], heeds: false });
        void sim.work(b, { ...options, turns: 1, restMs: [500, 500], waitMs: 50_000 });
        world.after(CRASH_AT_MS, () => {
          a.process.onPoint("read", () => a.process.kill());
          void sim.work(a, { ...options, turns: 1, restMs: [0, 0] });
          void sim.work(b, { ...options, turns: 1, restMs: [500, 500] });
        });
      }
      await world.run(CRASH_AT_MS + 60_000);
    },
    check(result) {
      mustHold(result);
      mustLose(result, ["none"]);
      const overlapped = result.of("grant").filter(({ key, client }, nth, all) => {
        const pausedUntilMs = PAUSE_MS;
        const isNext = client.startsWith("B-") && all.findIndex((g) => g.key === key) < nth;
        return isNext && all[nth]!.atMs < pausedUntilMs;
      });
      must(overlapped.length === 2, `${overlapped.length} of the TTLs were shorter than the pause`);
      const waits = TTLS_S.map((seconds) => {
        const own = result.of("grant").filter(({ key }) => key === `job-${seconds}s`);
        const crashed = own.findLast(({ client }) => client === `A-${seconds}s`);
        return own.at(-1)!.atMs - (crashed?.atMs ?? 0);
      });
      const grows = waits.every((ms, nth) => nth === 0 || ms > waits[nth - 1]!);
      must(grows, `recovery took ${waits.join(", ")} ms`);
    },
  },
];
