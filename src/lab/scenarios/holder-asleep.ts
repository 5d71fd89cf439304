/** A. The holder's clocks stop with it, or its connection outlives it. */
import { UnverifiedError } from "../../core/errors.js";
import { Hand, refusalOf, tell } from "../hand.js";
import type { Client, Simulation } from "../simulation.js";
import { connectionStore } from "../stores/connection-store.js";
import { faultOf, grantOf, grantsOf, looksAt, mustFollow, noted, stopOf } from "./reading.js";
import type { Scenario } from "./scenario.js";
import { must, mustHold, mustLose } from "./scenario.js";

const TTL_MS = 10_000;
const BOUND_MS = 1_100;
const NEXT = { turns: 1, restMs: [300, 400], thinkMs: [100, 200], ttlMs: TTL_MS } as const;
const IDLE_MS = 30_000;

/** Holds, is stopped, and at the first step after that looks, and writes whatever it saw. */
async function wake(
  sim: Simulation,
  client: Client,
  key: string,
  stop: () => void,
): Promise<Hand> {
  const hand = await Hand.take(sim, client, { key, ttlMs: TTL_MS });
  await hand.open(key);
  await hand.read(key);
  stop();
  await client.process.point("woken");
  const state = hand.look();
  const refusal = await refusalOf((async () => hand.lease.assertHeld())());
  const isUnverified = refusal instanceof UnverifiedError;
  const said = isUnverified ? "the clock is in doubt" : `assertHeld: ${refusal?.name ?? "held"}`;
  const text = `wakes, ${state}: ${said}`;
  sim.world.history.add({ kind: "note", client: client.process.name, text });
  await refusalOf(hand.write(key));
  return hand;
}

/** Looks until the store has answered. */
async function settle(hand: Hand): Promise<void> {
  while (hand.look() === "unknown") await hand.client.process.sleep(50);
}

export const holderAsleepScenarios: readonly Scenario[] = [
  {
    id: 9,
    name: "suspend",
    title: "The holder's machine sleeps for ten TTLs; two others are frozen by their hypervisor.",
    async play(sim) {
      const [asleep, long, short] = [
        await sim.client("A"), await sim.client("V"), await sim.client("W"),
      ];
      for (const [name, key] of [["B", "asleep"], ["C", "frozen"], ["D", "blinked"]] as const) {
        void sim.work(await sim.client(name), { ...NEXT, key, resource: key });
      }
      await tell(sim, async () => {
        const sleeping = wake(sim, asleep, "asleep", () => asleep.process.suspendFor(10 * TTL_MS));
        const frozen = wake(sim, long, "frozen", () => long.process.freezeMachineFor(2 * TTL_MS));
        const blinked = wake(sim, short, "blinked", () => short.process.freezeMachineFor(2_000));
        await settle(await blinked);
        await refusalOf((await blinked).release());
        await settle(await frozen);
        await sleeping;
      });
    },
    check(result) {
      mustHold(result);
      // Each wakes after its successor has written, and writes at once whatever it knows.
      mustLose(result, ["none"]);
      const slept = grantOf(result, "asleep", "A");
      const wokeMs = faultOf(result, "resume", "A").atMs;
      mustFollow(stopOf(result, slept).atMs, wokeMs, 0, "seeing the loss at the first look");
      const doubt = "wakes, unknown: the clock is in doubt";
      for (const client of ["V", "W"]) {
        const [said] = noted(result, client);
        must(said === doubt, `the frozen ${client} said at its first look: ${said}`);
      }
      const lost = stopOf(result, grantOf(result, "frozen", "V"));
      must(lost.why === "taken" || lost.why === "absent", `a renewal told V of: ${lost.why}`);
      mustFollow(lost.atMs, faultOf(result, "resume", "V").atMs, BOUND_MS, "what V was told");
      const after = looksAt(result, grantOf(result, "blinked", "W"));
      must(after.at(-1)?.kind === "believes", "a renewal did not give W its certainty back");
    },
  },
  {
    id: 10,
    name: "hung-connected",
    title: "The holder is stopped for ever, and the kernel of its machine answers for it.",
    async play(sim) {
      const endless = connectionStore(sim.world, { name: "connections" });
      const limited = connectionStore(sim.world, { name: "impatient", idleMs: IDLE_MS });
      const pairs = [
        ["A", "B", "by-ttl", sim.store],
        ["C", "D", "by-connection", endless],
        ["E", "F", "by-idle-limit", limited],
      ] as const;
      for (const [first, second, key, store] of pairs) {
        const holder = await sim.client(first, {}, store);
        const turn = { ...NEXT, key, resource: key, waitMs: 300_000 };
        holder.process.onPoint("read", () => holder.process.pause());
        void sim.work(holder, { ...turn, restMs: [0, 0] });
        void sim.work(await sim.client(second, {}, store), turn);
      }
      await sim.world.run(120_000);
    },
    check(result) {
      mustHold(result);
      // Who never goes on writes nothing: the fence makes no difference.
      mustLose(result, []);
      const freedMs = (key: string, first: string, next: string): number =>
        grantOf(result, key, next).atMs - grantOf(result, key, first).atMs;
      mustFollow(freedMs("by-ttl", "A", "B"), TTL_MS, BOUND_MS, "the grant after a TTL");
      const stuck = grantsOf(result, "by-connection").length;
      must(stuck === 1, "a lock of a connection was freed while its connection lived");
      mustFollow(freedMs("by-idle-limit", "E", "F"), IDLE_MS, BOUND_MS, "the grant when idle");
    },
  },
];
