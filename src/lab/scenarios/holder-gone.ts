/** A. The holder stops before it holds, or for good. */
import type { ScenarioResult, Scenario } from "./scenario.js";
import { must, mustHold, mustLose } from "./scenario.js";
import {
  endOf, faultOf, grantOf, grantsOf, lastExtendedMs, looksAt, mustFollow,
} from "./reading.js";

const TTL_MS = 10_000;
/** Longest pause of a waiter, and the way to the store and back. */
const BOUND_MS = 1_100;
const TURN = { turns: 1, restMs: [0, 0], thinkMs: [500, 1_000], ttlMs: TTL_MS } as const;
const LATER = { ...TURN, restMs: [300, 400] } as const;

/** The lease of a holder that is gone went to another one in time. */
function mustGoOn(result: ScenarioResult, key: string): void {
  const [gone, next] = grantsOf(result, key);
  must(gone !== undefined && next !== undefined, `${key} was not granted again`);
  const end = endOf(result, gone!);
  must(end.why === "expired" && end.early !== true, `${gone!.client} lost ${key}: ${end.why}`);
  const freeMs = lastExtendedMs(result, gone!) + gone!.ttlMs;
  mustFollow(next!.atMs, freeMs, BOUND_MS, `the grant of ${key} to ${next!.client}`);
}

export const holderGoneScenarios: readonly Scenario[] = [
  {
    id: 4,
    name: "dead-on-arrival",
    title: "A grant arrives when its time is over: its client was paused, or the network slow.",
    async play(sim) {
      const [paused, second, slow, fourth] = [
        await sim.client("A"), await sim.client("B"), await sim.client("C"), await sim.client("D"),
      ];
      sim.network.once({ to: "A", what: "acquire reply" }, () => {
        paused.process.pauseFor(TTL_MS + 1_500);
        return undefined;
      });
      void sim.work(paused, { ...TURN, key: "paused", turns: 2 });
      void sim.work(second, { ...LATER, key: "paused" });
      // Less than the time that a call may take; and the store has not let go when it arrives.
      const ttlMs = 4_000;
      sim.network.once({ to: "C", what: "acquire reply" }, { holdMs: 3_970 });
      void sim.work(slow, { ...TURN, key: "slow", ttlMs, resource: "other" });
      void sim.work(fourth, { ...LATER, key: "slow", ttlMs, resource: "other" });
      await sim.world.run(6 * TTL_MS);
    },
    check(result) {
      mustHold(result);
      // Nobody acts on such a grant, so the fence has nothing to do.
      mustLose(result, []);
      mustGoOn(result, "paused");
      const late = grantOf(result, "slow", "C");
      const end = endOf(result, late);
      must(end.why === "released" && end.by === late.holder, "the late grant was not given back");
      mustFollow(end.atMs, late.atMs, 4_000, "giving the late grant back");
      for (const [key, client] of [["paused", "A"], ["slow", "C"]] as const) {
        const seen = looksAt(result, grantOf(result, key, client));
        must(seen.length === 0, `${client} was handed a grant whose time was over`);
        const again = looksAt(result, grantOf(result, key, client, 1));
        must(again.length > 0, `${client} was not handed a live grant later`);
      }
    },
  },
  {
    id: 7,
    name: "kill-restart",
    title: "The holder is killed, and a process of the same name starts in its place.",
    async play(sim) {
      const a = await sim.client("A");
      const b = await sim.client("B");
      a.process.onPoint("checked", () => {
        a.process.kill();
        sim.world.after(1_000, () => {
          void sim.client("A").then((again) => sim.work(again, TURN));
        });
      });
      void sim.work(a, TURN);
      void sim.work(b, LATER);
      await sim.world.run(6 * TTL_MS);
    },
    check(result) {
      mustHold(result);
      // The dead write nothing: the fence makes no difference.
      mustLose(result, []);
      const grants = grantsOf(result, "job");
      must(grants.length === 3, `${grants.length} grants instead of three`);
      const [dead, next] = grants;
      const killedMs = faultOf(result, "kill", "A").atMs;
      must(next!.atMs - killedMs <= TTL_MS + BOUND_MS, "the lease of the dead was kept too long");
      mustGoOn(result, "job");
      const again = grantOf(result, "job", "A", 1);
      must(again.holder !== dead!.holder, "the new process inherited the holder of the old one");
      must(BigInt(again.token) > BigInt(dead!.token), "the new process has no newer token");
      must(again.atMs >= endOf(result, dead!).atMs, "the new process inherited the lease");
    },
  },
  {
    id: 8,
    name: "orphan-grant",
    title: "The store grants, and its client is dead, or has given up, before the answer arrives.",
    async play(sim) {
      const [dying, second, leaving, fourth] = [
        await sim.client("A"), await sim.client("B"), await sim.client("C"), await sim.client("D"),
      ];
      sim.network.once({ to: "A", what: "acquire reply" }, () => {
        dying.process.kill();
        return undefined;
      });
      void sim.work(dying, { ...TURN, key: "died" });
      void sim.work(second, { ...LATER, key: "died" });
      const ttlMs = 6 * TTL_MS;
      sim.network.once({ to: "C", what: "acquire reply" }, { drop: true });
      void sim.work(leaving, { ...TURN, key: "left", resource: "other", ttlMs, waitMs: 3_000 });
      void sim.work(fourth, { ...LATER, key: "left", resource: "other", ttlMs });
      await sim.world.run(6 * TTL_MS);
    },
    check(result) {
      mustHold(result);
      // Nobody knows of such a grant, so nobody writes with it.
      mustLose(result, []);
      mustGoOn(result, "died");
      const orphan = grantOf(result, "left", "C");
      const end = endOf(result, orphan);
      must(end.why === "released" && end.by === orphan.holder, "the orphan was not taken back");
      // When its call was not answered in time: long before its TTL.
      mustFollow(end.atMs, orphan.atMs, 5_100, "taking the orphan back");
      mustFollow(grantOf(result, "left", "D").atMs, end.atMs, BOUND_MS, "the next grant");
      for (const key of ["died", "left"]) {
        const seen = looksAt(result, grantsOf(result, key)[0]!);
        must(seen.length === 0, `somebody believed in the orphan of ${key}`);
      }
    },
  },
];
