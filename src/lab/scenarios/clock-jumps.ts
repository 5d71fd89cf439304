/** C. Clocks that are set, and clocks that run too fast or too slow. */
import { keep } from "../keeping.js";
import {
  endOf, faultOf, grantOf, grantsOf, lastExtendedMs, looksAt, mustFollow, noted, stopOf,
} from "./reading.js";
import type { Scenario } from "./scenario.js";
import { must, mustHold, mustLose } from "./scenario.js";

const TTL_MS = 10_000;
const BOUND_MS = 1_100;
const TURN = { turns: 1, restMs: [0, 0], ttlMs: TTL_MS } as const;
const NEXT = { ...TURN, restMs: [300, 400] } as const;
const HOUR_MS = 3_600_000;
const KEEP_MS = 60_000;
/** As many renewals as a lease that nothing happens to has in that time, and two for the doubts. */
const MOST_RENEWALS = Math.ceil(KEEP_MS / (TTL_MS * 0.3)) + 2;
/** Part by which the clock of a client is slow: more than the 1 % that a holder allows for. */
const SLOW = 0.1;
const BACK_MS = 60_000;

export const clockJumpScenarios: readonly Scenario[] = [
  {
    id: 19,
    name: "client-clocks",
    title: "Wall clocks of clients are set by an hour; others run 10 % too fast or too slow.",
    async play(sim) {
      const set = await sim.client("A", { wallOffMs: -HOUR_MS });
      sim.world.at(10_000, () => set.process.jumpWall(HOUR_MS));
      sim.world.at(30_000, () => set.process.jumpWall(-HOUR_MS));
      void keep(sim, set, { key: "set", forMs: KEEP_MS });
      for (const [name, rate] of [["fast", 1 + SLOW], ["slow", 1 - SLOW]] as const) {
        void keep(sim, await sim.client(name, { rate }), { key: name, forMs: KEEP_MS });
      }
      // Cut off within the margin: it stops before the store lets go.
      const near = await sim.client("near", { rate: 0.995 });
      sim.world.at(100, () => sim.network.isolate("near", "store"));
      void keep(sim, near, { key: "near", forMs: KEEP_MS });
      // And beyond it: in the time between it looks at its clock, and writes.
      const far = await sim.client("far", { rate: 1 - SLOW });
      far.process.onPoint("read", () => sim.network.isolate("far", "store"));
      const thinkMs = [TTL_MS * 0.96, TTL_MS * 0.97] as const;
      const late = { thinkMs, key: "far", resource: "far", heeds: false, graceMs: 0 } as const;
      void sim.work(far, { ...TURN, ...late });
      for (const key of ["near", "far"]) {
        const next = await sim.client(`after ${key}`);
        void sim.work(next, { ...NEXT, thinkMs: [3_000, 4_000], key, resource: key });
      }
      await sim.world.run(1.5 * KEEP_MS);
    },
    check(result) {
      mustHold(result);
      // The far one's write comes when the next one has read, and not yet written.
      mustLose(result, ["none", "naive"]);
      for (const client of ["A", "fast", "slow"]) {
        const grant = grantOf(result, client === "A" ? "set" : client, client);
        must(stopOf(result, grant).why === "released", `${client} lost its lease to a clock`);
        const renewals = result.of("extend").filter(({ token, key }) =>
          token === grant.token && key === grant.key);
        must(renewals.length <= MOST_RENEWALS, `${client} renewed ${renewals.length} times`);
      }
      const doubts = looksAt(result, grantOf(result, "set", "A"))
        .filter(({ kind, atMs }) => kind === "doubts" && atMs > 30_000);
      must(doubts.length === 0, "A doubted its lease when its wall clock was set back");
      const near = grantOf(result, "near", "near");
      const spareMs = endOf(result, near).atMs - looksAt(result, near).at(-1)!.atMs;
      must(spareMs > 0, `a clock within the margin was believed ${-spareMs} ms too long`);
      const far = grantOf(result, "far", "far");
      const overlapMs = looksAt(result, far).at(-1)!.atMs - endOf(result, far).atMs;
      must(overlapMs > 0, "the slow clock said that it was over before the store did");
      must(overlapMs < TTL_MS * SLOW * 1.2, `it was believed ${overlapMs} ms too long`);
    },
  },
  {
    id: 20,
    name: "store-clock-forward",
    title: "The store's clock is set ahead by a TTL while somebody holds.",
    async play(sim) {
      const [a, b] = [await sim.client("A"), await sim.client("B")];
      const { server } = sim.store.find();
      a.process.onPoint("read", () => sim.world.after(500, () => server.jumpWall(TTL_MS)));
      // Its write leaves before its next renewal, and when B has read.
      void sim.work(a, { ...TURN, thinkMs: [2_400, 2_500], heeds: false });
      void sim.work(b, { ...NEXT, thinkMs: [4_000, 5_000] });
      await sim.world.run(60_000);
    },
    check(result) {
      mustHold(result);
      mustLose(result, ["none", "naive"]);
      const grant = grantOf(result, "job", "A");
      const end = endOf(result, grant);
      must(end.why === "expired" && end.early === true, "it is not told that the store was early");
      const jumpMs = faultOf(result, "wall-clock", "store").atMs;
      mustFollow(grantOf(result, "job", "B").atMs, jumpMs, BOUND_MS, "the grant to B");
      must(result.fence !== "armed" || result.staleRefused > 0, "A's write was not refused");
    },
  },
  {
    id: 21,
    name: "store-clock-back",
    title: "The store's clock is set back by a minute: one holder dies then, another lives on.",
    async play(sim) {
      const [dying, second, living, fourth] = [
        await sim.client("A"), await sim.client("B"), await sim.client("C"), await sim.client("D"),
      ];
      const { server } = sim.store.find();
      dying.process.onPoint("read", () => {
        dying.process.kill();
        sim.world.after(200, () => server.jumpWall(-BACK_MS));
      });
      void sim.work(dying, { ...TURN, key: "dead" });
      void sim.work(second, { ...NEXT, key: "dead", waitMs: 2 * BACK_MS });
      void keep(sim, living, { key: "live", forMs: 30_000 });
      void keep(sim, fourth, { key: "live", forMs: 5_000, waitMs: 2 * BACK_MS });
      const asking = await sim.client("E");
      sim.world.at(5_000, () => {
        void asking.tenure.inspect("dead").then((seen) => {
          const text = `it is told ${seen?.expiresInMs} ms left`;
          sim.world.history.add({ kind: "note", client: "E", text });
        });
      });
      await sim.world.run(3 * BACK_MS);
    },
    check(result) {
      mustHold(result);
      // The dead write nothing, and the living hold: the fence makes no difference.
      mustLose(result, []);
      const grant = grantOf(result, "dead", "A");
      const next = grantOf(result, "dead", "B");
      const freeMs = lastExtendedMs(result, grant) + TTL_MS + BACK_MS;
      mustFollow(next.atMs, freeMs, BOUND_MS, "the grant of the dead one's lease");
      const toldMs = Number(/\d+/.exec(noted(result, "E")[0] ?? "")?.[0]);
      const leftMs = next.atMs - 5_000;
      must(Math.abs(toldMs - leftMs) <= BOUND_MS, `${toldMs} ms were told to be left of ${leftMs}`);
      for (const key of ["dead", "live"]) {
        const tokens = grantsOf(result, key).map(({ token }) => BigInt(token));
        const isRising = tokens.every((token, i) => i === 0 || token > tokens[i - 1]!);
        must(isRising && tokens.length === 2, `the tokens of ${key} went back with the clock`);
      }
      const first = grantsOf(result, "live")[0]!;
      must(stopOf(result, first).why === "released", "a holder that lived lost its lease");
    },
  },
];
