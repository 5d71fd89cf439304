/** B. Answers that get lost, and commands that arrive twice or late. */
import { Hand, refusalOf, tell } from "../hand.js";
import type { Simulation } from "../simulation.js";
import {
  endOf, grantOf, grantsOf, lastExtendedMs, looksAt, mustFollow, noted,
} from "./reading.js";
import type { Scenario, ScenarioResult } from "./scenario.js";
import { must, mustHold, mustLose } from "./scenario.js";

const TTL_MS = 10_000;
const BOUND_MS = 1_100;
const CALL_MS = 5_000;
const TURN = { turns: 1, restMs: [0, 0], thinkMs: [500, 1_000], ttlMs: TTL_MS } as const;
const ZOMBIE_TTL_MS = 3_000;
const REST_MS = 1_500;

/** Gives a lease back, hears nothing of it, and says so again once another has it. */
async function releaseTwice(sim: Simulation, name: string, key: string): Promise<void> {
  const client = await sim.client(name);
  const hand = await Hand.take(sim, client, { key, ttlMs: TTL_MS });
  const note = (text: string): void =>
    sim.world.history.add({ kind: "note", client: name, text });
  note(`gives it back: ${(await refusalOf(hand.release()))?.code}`);
  const isNext = (): boolean =>
    sim.world.history.of("believes").some((look) => look.key === key && look.client !== name);
  while (!isNext()) await client.process.sleep(500);
  note(`gives it back again: ${await hand.lease.release()}`);
}

/** The next holder has kept its lease until it gave it back itself. */
function mustBeUntouched(result: ScenarioResult, key: string, client: string): void {
  const grant = grantOf(result, key, client);
  const end = endOf(result, grant);
  const isOwn = end.why === "released" && end.by === grant.holder;
  must(isOwn, `the lease ${key} of ${client} was ended by another one: ${end.why}`);
}

export const networkAnswerScenarios: readonly Scenario[] = [
  {
    id: 11,
    name: "lost-acquire-reply",
    title: "The answer to an acquire is lost: with its connection, or without a word.",
    async play(sim) {
      const ttlMs = 6 * TTL_MS;
      const [told, second, untold, fourth] = [
        await sim.client("A"), await sim.client("B"), await sim.client("C"), await sim.client("D"),
      ];
      sim.network.once({ to: "A", what: "acquire reply" }, { breaks: true });
      // One that is lost is asked for again, under the same holder: C does not hear that either.
      sim.network.once({ to: "C", what: "acquire reply" }, { drop: true });
      sim.network.once({ to: "C", what: "acquire reply" }, { drop: true });
      void sim.work(told, { ...TURN, key: "told", ttlMs });
      void sim.work(second, { ...TURN, key: "told", ttlMs, restMs: [300, 400] });
      const other = { ...TURN, key: "untold", resource: "other", ttlMs };
      void sim.work(untold, { ...other, turns: 2 });
      void sim.work(fourth, { ...other, restMs: [300, 400] });
      await sim.world.run(ttlMs);
    },
    check(result) {
      mustHold(result);
      // Nobody acts on what it was not told: the fence makes no difference.
      mustLose(result, []);
      const own = grantsOf(result, "told").filter(({ client }) => client === "A");
      must(own.length === 1, `one attempt was granted ${own.length} times`);
      const [first] = looksAt(result, own[0]!);
      must(first !== undefined, "A stood in its own way");
      mustFollow(first!.atMs, own[0]!.atMs, BOUND_MS, "the repeated answer");
      const orphan = grantOf(result, "untold", "C");
      must(looksAt(result, orphan).length === 0, "C believed what it was never told");
      const end = endOf(result, orphan);
      must(end.by === orphan.holder, "the grant that C was not told of was not given back");
      mustFollow(end.atMs, orphan.atMs, 2 * CALL_MS + 200, "giving it back");
      const again = grantOf(result, "untold", "C", 1);
      const mostMs = 2 * CALL_MS + 3 * BOUND_MS;
      mustFollow(again.atMs, orphan.atMs, mostMs, "the next grant to C, which its own orphan");
    },
  },
  {
    id: 12,
    name: "late-release",
    title: "The answer to a release is lost, or the release is late: it comes when another holds.",
    async play(sim) {
      const [second, fourth] = [await sim.client("B"), await sim.client("D")];
      const long = { ...TURN, restMs: [300, 400], thinkMs: [20_000, 21_000] } as const;
      void sim.work(second, { ...long, key: "unanswered", resource: "one" });
      void sim.work(fourth, { ...long, key: "held-up", resource: "two" });
      sim.network.once({ from: "A", what: "release" }, { againAfterMs: 7_000 });
      sim.network.once({ to: "A", what: "release reply" }, { drop: true });
      sim.network.once({ from: "C", what: "release" }, { holdMs: 2 * TTL_MS });
      await tell(sim, async () => {
        const one = releaseTwice(sim, "A", "unanswered");
        await releaseTwice(sim, "C", "held-up");
        await one;
      });
    },
    check(result) {
      mustHold(result);
      // What is given back is not written with: the fence makes no difference.
      mustLose(result, []);
      mustBeUntouched(result, "unanswered", "B");
      mustBeUntouched(result, "held-up", "D");
      for (const client of ["A", "C"]) {
        const [first, again] = noted(result, client);
        const isOpen = first === "gives it back: TENURE_OUTCOME_UNKNOWN";
        must(isOpen, `${client} ${first}`);
        must(again === "gives it back again: not-held", `${client} ${again}`);
      }
      const next = grantOf(result, "unanswered", "B");
      const copies = result
        .of("message")
        .filter(({ from, what, atMs }) => from === "A" && what === "release" && atMs > next.atMs);
      must(copies.length >= 2, "no release came while the next one held");
      const end = endOf(result, grantOf(result, "held-up", "C"));
      must(end.why === "expired", `the lease of C was ${end.why} before its release came`);
    },
  },
  {
    id: 13,
    name: "zombie-commands",
    title: "Every acquire, renewal and release of a client comes once more, seconds later.",
    async play(sim) {
      const [a, b, c] = [await sim.client("A"), await sim.client("B"), await sim.client("C")];
      for (const what of ["acquire", "renew", "release"]) {
        sim.network.always({ from: "A", what }, { againAfterMs: 2 * ZOMBIE_TTL_MS });
      }
      const turns = { turns: 5, ttlMs: ZOMBIE_TTL_MS, thinkMs: [500, 1_000] } as const;
      // Long enough to renew; the copies come while it rests.
      void sim.work(a, { ...turns, thinkMs: [2_500, 3_500], restMs: [8_000, 9_000] });
      void sim.work(b, { ...turns, restMs: [4_000, 9_000] });
      // Seldom gone for long, so that an end is soon seen.
      const isOver = (): boolean => sim.world.nowMs > 110_000;
      const brief = { thinkMs: [50, 100], restMs: [500, REST_MS] } as const;
      void sim.work(c, { ...turns, ...brief, turns: Infinity, isOver });
      await sim.world.run(120_000);
    },
    check(result) {
      mustHold(result);
      // Commands to the store alone come twice: the fence makes no difference.
      mustLose(result, []);
      const grants = grantsOf(result, "job");
      const zombies = grants.filter((grant) => looksAt(result, grant).length === 0);
      must(zombies.length > 0, "no late acquire found the name free");
      const renewed = result.of("extend").map(({ atMs }) => atMs);
      const late = result
        .of("message")
        .filter(({ from, what, atMs }) =>
          from === "A" && what === "renew" && !renewed.includes(atMs));
      must(late.length > 0, "no late renewal came when its lease was over");
      for (const zombie of zombies) {
        const own = grants.find((grant) =>
          grant.holder === zombie.holder && !zombies.includes(grant));
        must(own?.client === "A", `${zombie.client} was granted a lease that it did not take`);
        // It asked for the last time before it was granted: no copy comes later than that.
        const lastCopyMs = looksAt(result, own!)[0]!.atMs + 2 * ZOMBIE_TTL_MS;
        must(lastExtendedMs(result, zombie) <= lastCopyMs, "something renewed a lease of nobody");
        const end = result.of("end").find(({ token }) => token === zombie.token);
        const keptMs = (end?.atMs ?? 0) - lastCopyMs;
        const mostMs = ZOMBIE_TTL_MS + REST_MS + BOUND_MS;
        must(keptMs <= mostMs, `nobody's lease was kept for ${keptMs} ms`);
      }
    },
  },
];
