/** To look at: an election with terms, a log and a majority, in the lab's network. */
import { toToken } from "../../core/token.js";
import { refusalOf, tell } from "../hand.js";
import { RaftGroup, type RaftFlaw, type RaftNode, type RaftOptions } from "../models/raft.js";
import type { Access } from "../resource.js";
import { Simulation } from "../simulation.js";
import { must, mustHold, mustLose, type Scenario } from "./scenario.js";

const SOON_MS = 20_000;

/** The flaws, and what comes of each. */
const RAFT_FLAWS: Readonly<Record<RaftFlaw, string>> = {
  "votes-twice": "terms had two leaders",
  "commits-alone": "places of the log had two entries",
  "never-steps-down": "times two nodes led at once",
};

export const lookRaftScenarios: readonly Scenario[] = [
  {
    id: 0,
    name: "raft-election",
    title: "Five nodes with terms and a log: a paused leader, then one loss after the other.",
    async play(sim) {
      await tell(sim, () => electByRaft(sim));
      await showRaftFlaws(sim);
    },
    check(result) {
      mustHold(result);
      // A term is a token: the write of the paused leader is stale.
      mustLose(result, ["none"]);
      must(result.of("note").length === 3, "not all three flaws were shown");
    },
  },
  {
    id: 0,
    name: "minority-leader",
    title: "A leader is cut off with one of its followers, and reports that it leads no more.",
    play: (sim) => tell(sim, () => leadMinority(sim)),
    check(result) {
      mustHold(result);
      // It knows that it leads no more, and what it had sent before arrives all the same.
      mustLose(result, ["none"]);
      const [revoked] = result.of("revoked");
      const [, second] = result.of("elected");
      const cut = result.of("fault").find(({ what }) => what === "cut");
      const afterMs = revoked!.atMs - cut!.atMs;
      must(afterMs < 1_500, `the minority's leader took ${afterMs} ms to say so`);
      must(second !== undefined, "the majority elected nobody");
    },
  },
];

/** Cuts all ways between two groups of nodes. */
export function cutApart(
  { network }: Simulation,
  some: readonly string[],
  others: readonly string[],
): void {
  for (const one of some) for (const other of others) network.isolate(one, other);
}

/** What a leader of Raft works with: its term is its token. */
function openAs(sim: Simulation, node: RaftNode): Promise<Access> {
  const token = toToken(BigInt(node.term));
  const bearer = { name: "raft", holder: node.name, storeId: "raft", token };
  return sim.resource.open(node.process, bearer, "account");
}

/** A leader of the group other than `but`. */
async function leaderOf(sim: Simulation, group: RaftGroup, but?: RaftNode): Promise<RaftNode> {
  const leader = await group.leader(sim.world, SOON_MS, but);
  must(leader !== undefined, "nobody was elected");
  return leader!;
}

async function electByRaft(sim: Simulation): Promise<void> {
  const { world } = sim;
  const group = new RaftGroup(world, sim.network);
  const first = await leaderOf(sim, group);
  must((await first.propose("a")) === "committed", "the first entry was not committed");
  const access = await openAs(sim, first);
  const base = await access.read();
  first.process.pause();
  const second = await leaderOf(sim, group, first);
  const next = await openAs(sim, second);
  await next.write(await next.read());
  first.process.resume();
  await refusalOf(access.write(base));

  for (const entry of ["b", "c"]) {
    (await leaderOf(sim, group)).process.kill();
    const leader = await leaderOf(sim, group);
    const outcome = await leader.propose(entry);
    must(outcome === "committed", `${entry} was ${outcome} with a majority alive`);
  }
  const last = await leaderOf(sim, group);
  group.nodes.find((node) => node !== last && node.process.isAlive)!.process.kill();
  must((await last.propose("d")) === "unknown", "an entry was committed without a majority");
  await world.pass(SOON_MS);
  must(group.leaders.length === 0, "two of five elected a leader");
  must(group.splits.length === 0, "two things were committed at one place of the log");
}

/** Each of the flaws, in a world of its own. */
async function showRaftFlaws({ world }: Simulation): Promise<void> {
  for (const flaw of Object.keys(RAFT_FLAWS) as RaftFlaw[]) {
    world.history.add({ kind: "note", text: await showRaftFlaw(world.seed, flaw) });
  }
}

/** Plays the same to nodes with a flaw and to nodes without; what the flaw came to, in words. */
async function showRaftFlaw(seed: number, flaw: RaftFlaw): Promise<string> {
  // Time-outs so close together that there are two candidates of a term again and again.
  const close: RaftOptions = { timeoutMs: [1_000, 1_040] };
  const sound = await splitRaft(seed, close);
  const flawed = await splitRaft(seed, { ...close, flaw });
  must(sound[flaw] === 0, `without the flaw ${flaw} it came to ${sound[flaw]}`);
  must(flawed[flaw] > 0, `the flaw ${flaw} was not seen`);
  return `with the flaw ${flaw} ${flawed[flaw]} ${RAFT_FLAWS[flaw]}, and without it none`;
}

/** By the flaw that brings them about: terms with two leaders, split places, two at a time. */
async function splitRaft(
  seed: number,
  options: RaftOptions,
): Promise<Readonly<Record<RaftFlaw, number>>> {
  const sim = new Simulation({ seed, fence: "none" });
  const { world, network } = sim;
  const group = new RaftGroup(world, network, options);
  let together = 0;
  const story = async (): Promise<void> => {
    for (let round = 1; round <= 20; round++) {
      const cut = await leaderOf(sim, group);
      const others = group.nodes.filter((node) => node !== cut);
      cutApart(sim, [cut.name], others.map(({ name }) => name));
      const alone = cut.propose(`alone ${round}`);
      const next = await group.leader(world, SOON_MS, cut);
      await next?.propose(`together ${round}`);
      await world.pass(2_000);
      if (cut.isLeader && next?.isLeader === true) together++;
      network.healAll();
      await alone;
      await world.pass(2_000);
    }
  };
  // A leader that never steps down may wait for ever for what it cannot commit.
  await world.until(Promise.race([story(), world.pass(300_000)]), 400_000);
  const terms = world.history.of("elected").map(({ term }) => term);
  return {
    "votes-twice": terms.length - new Set(terms).size,
    "commits-alone": group.splits.length,
    "never-steps-down": together,
  };
}

async function leadMinority(sim: Simulation): Promise<void> {
  const { world, network } = sim;
  const group = new RaftGroup(world, network);
  const first = await leaderOf(sim, group);
  const access = await openAs(sim, first);
  const base = await access.read();
  const companion = group.nodes.find((node) => node !== first)!;
  const minority = [first.name, companion.name];
  const majority = group.nodes.map(({ name }) => name).filter((name) => !minority.includes(name));
  cutApart(sim, minority, majority);
  const outcome = await first.propose("of the minority");
  must(outcome === "unknown", `what the minority's leader was asked for is ${outcome}`);
  must(!first.isLeader, "the minority's leader does not say that it is none");
  must((await first.propose("more")) === "refused", "it takes work on all the same");
  const second = await leaderOf(sim, group, first);
  must(majority.includes(second.name), "the minority elected a leader");
  must((await second.propose("of the majority")) === "committed", "the majority stood still");
  const next = await openAs(sim, second);
  await next.write(await next.read());
  await refusalOf(access.write(base));
  network.healAll();
  await world.pass(SOON_MS);
  const all = [...group.committed.values()].flatMap((values) => [...values]);
  must(group.splits.length === 0, "two things were committed at one place of the log");
  must(
    !all.some((entry) => entry.startsWith("of the minority")),
    "what the minority had noted was committed after all",
  );
}
