/** F. Elections: leaders that were deposed, and many of them. */
import { electionOf, observe, stand } from "../candidate.js";
import { refusalOf, tell } from "../hand.js";
import type { History } from "../history.js";
import type { Access } from "../resource.js";
import type { Client, Simulation } from "../simulation.js";
import { replicatedPair, type ReplicatedPair } from "../stores/replicated-pair.js";
import type { Leadership } from "../../election/term.js";
import { must, mustHold, mustLose, type Scenario, type ScenarioResult } from "./scenario.js";

const TTL_MS = 10_000;
const HOUR_MS = 3_600_000;
const FIVE = [1, 2, 3, 4, 5] as const;
/** On top of the TTL: an offer that its waiter has to confirm, and the way of a few messages. */
const BOUND_MS = 1_500;

export const electionTermScenarios: readonly Scenario[] = [
  {
    id: 39,
    name: "deposed-leader",
    title: "A leader is cut off, another one paused; both have work and a resignation left to do.",
    play: (sim) => tell(sim, () => depose(sim)),
    check(result) {
      mustHold(result);
      mustLose(result, ["none"]);
      const [first, second] = result.of("revoked");
      const [, next, last] = result.of("elected");
      must(first?.client === "L1" && second?.client === "L2", "not both leaders were revoked");
      const earlyMs = next!.atMs - first!.atMs;
      must(earlyMs > 0, `L1's term was revoked ${-earlyMs} ms after L2 was elected`);
      const resumed = result.of("fault").find(({ what }) => what === "resume");
      must(second!.atMs === resumed?.atMs, "L2 did not see its end in its first turn");
      must(second!.atMs > last!.atMs, "L2 was not paused past its term");
    },
  },
  {
    id: 40,
    name: "leader-churn",
    title:
      "The leader is killed every two TTLs, for three minutes (an hour under an armed fence with " +
      "the seeds 1, 6, 11, …); observers ask a replica that lags.",
    options: { store: (world, network) => replicatedPair(world, network, { waiting: "queue" }) },
    async play(sim) {
      // The fence has no part in it, and an hour takes seconds: see the title.
      const isWhole = sim.resource.mode === "armed" && sim.world.seed % 5 === 1;
      await churn(sim, isWhole ? HOUR_MS : HOUR_MS / 20);
    },
    check: checkChurn,
  },
];

/** One term in the hand of the scenario. */
interface Led {
  readonly client: Client;
  readonly term: Leadership;
  readonly access: Access;
  /** Milliseconds to its deadline when it was revoked. */
  leftMs: number | undefined;
}

async function elect(sim: Simulation, client: Client): Promise<Led> {
  const { world, resource } = sim;
  world.history.add({ kind: "wait", key: "leader", client: client.process.name });
  const { signal } = client.heard;
  const term = await electionOf(client, { ttlMs: TTL_MS }).campaign({ signal });
  const about = { key: term.name, client: client.process.name, term: String(term.term) };
  world.history.add({ kind: "elected", ...about });
  const { name, token, holder, storeId } = term;
  const bearer = { name, token, holder, storeId };
  let leftMs: number | undefined;
  term.signal.addEventListener("abort", () => {
    leftMs = term.remaining();
    world.history.add({ kind: "revoked", ...about });
  });
  const access = await resource.open(client.process, bearer, "account");
  return {
    client,
    term,
    access,
    get leftMs() {
      return leftMs;
    },
  };
}

async function depose(sim: Simulation): Promise<void> {
  const { world, network } = sim;
  const [l1, l2, l3] = [await sim.client("L1"), await sim.client("L2"), await sim.client("L3")];
  const first = await elect(sim, l1);
  const base = await first.access.read();
  network.isolate("L1", sim.store.find().server.name);
  const second = await elect(sim, l2);
  must(first.term.signal.aborted, "L1 was not revoked when L2 was elected");
  must((first.leftMs ?? 0) > 0, "L1 was revoked when its own time was over already");
  const afterFirst = await second.access.read();
  await second.access.write(afterFirst);
  // What L1 had queued, whatever its signal says; and its last act.
  await refusalOf(first.access.write(base));
  network.healAll();
  const resigned = await first.term.resign();
  must(resigned === "not-held", `L1's resignation after the takeover was ${resigned}`);
  await world.pass(TTL_MS);
  second.term.assertLeading();

  const late = await second.access.read();
  l2.process.pause();
  const third = await elect(sim, l3);
  await third.access.write(await third.access.read());
  l2.process.resume();
  must(second.term.signal.aborted, "L2 was not revoked when it went on");
  await refusalOf(second.access.write(late));
  must((await second.term.resign()) === "not-held", "L2 could resign what was not its own");
  await world.pass(TTL_MS);
  third.term.assertLeading();
  await third.term.resign();
}

async function churn(sim: Simulation, forMs: number): Promise<void> {
  const { world, network } = sim;
  const options = { ttlMs: TTL_MS, stepMs: TTL_MS / 5 };
  let born = 0;
  const candidate = async (): Promise<void> => {
    void stand(await sim.client(`L${++born}`), options);
  };
  for (const _ of FIVE) await candidate();
  const observers: Client[] = [];
  const { view } = sim.store as ReplicatedPair;
  for (const nth of FIVE) observers.push(await sim.client(`O${nth}`, {}, view));
  for (const observer of observers) void observe(observer, options);
  const draws = world.draws.fork("watches");
  network.plan = ({ to, what }) => {
    if (to.startsWith("O") && draws.chance(0.05)) return { drop: true };
    if (what !== "replicate") return undefined;
    // Some come so late that the next term overtakes them: the replica goes back to the old one.
    const isLate = draws.chance(0.2);
    return { holdMs: isLate ? draws.between(TTL_MS, 2 * TTL_MS) : draws.between(0, 500) };
  };
  const kill = (): void => {
    if (sim.isOver) return;
    const leader = leaderOf(sim);
    if (leader !== undefined) {
      leader.process.kill();
      void candidate();
    }
    // An observer sees nothing for a while.
    const blind = world.draws.pick(observers).process.name;
    const { name } = view.find().server;
    network.cut(name, blind);
    world.after(TTL_MS, () => network.heal(name, blind));
    world.after(2 * TTL_MS, kill);
  };
  world.after(2 * TTL_MS, kill);
  await world.run(forMs);
  const gaps = gapsOf(world.history);
  const p99 = gaps[Math.ceil(gaps.length * 0.99) - 1]!;
  const text =
    `${gaps.length} leaders were killed; without a leader for ${Math.round(p99)} ms (p99), ` +
    `${Math.round(gaps.at(-1)!)} ms at most, with a TTL of ${TTL_MS} ms`;
  world.history.add({ kind: "note", text });
}

/** How long nobody led after each kill, milliseconds, in ascending order. */
function gapsOf(history: History): readonly number[] {
  const elected = history.of("elected");
  const kills = history.of("fault").filter(({ what }) => what === "kill");
  const gaps = kills.flatMap(({ atMs }) => {
    const next = elected.find((event) => event.atMs > atMs);
    return next === undefined ? [] : [next.atMs - atMs];
  });
  return gaps.sort((a, b) => a - b);
}

/** The client that leads, by its own account. */
function leaderOf(sim: Simulation): Client | undefined {
  const { events } = sim.world.history;
  const last = events.findLast(({ kind }) => kind === "elected" || kind === "revoked");
  if (last?.kind !== "elected") return undefined;
  return sim.clients.find(({ process }) => process.name === last.client && process.isAlive);
}

function checkChurn(result: ScenarioResult): void {
  mustHold(result);
  // Leaders only lead here.
  mustLose(result, []);
  const elected = result.of("elected");
  const terms = elected.map(({ term }) => BigInt(term));
  must(
    terms.every((term, i) => i === 0 || term > terms[i - 1]!),
    "a term came after a higher one",
  );
  const kills = result.of("fault").filter(({ what }) => what === "kill");
  const gaps = gapsOf(result.sim.world.history);
  must(gaps.length >= kills.length - 1, "some leaders had no successor");
  const longestMs = gaps.at(-1)!;
  must(longestMs <= TTL_MS + BOUND_MS, `nobody led for ${longestMs} ms`);
  const standing = FIVE.map((nth) => `L${nth}`);
  const served = standing.filter((name) => elected.some(({ client }) => client === name));
  must(served.length === FIVE.length, `of ${standing.join(" ")} only ${served.join(" ")} led`);
  for (const nth of FIVE) {
    const seen = result.of("observed").filter(({ client }) => client === `O${nth}`);
    const shown = seen.flatMap(({ term }) => (term === undefined ? [] : [BigInt(term)]));
    must(
      shown.every((term, i) => i === 0 || term >= shown[i - 1]!),
      `O${nth} was shown an older term after a newer one`,
    );
    const distinct = new Set(shown).size;
    must(distinct > terms.length / 2, `O${nth} saw ${distinct} of ${terms.length} terms`);
  }
}
