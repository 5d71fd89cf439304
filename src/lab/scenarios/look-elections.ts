/** To look at: elections of textbooks, with all nodes in the lab's network. */
import { toToken } from "../../core/token.js";
import { refusalOf, tell } from "../hand.js";
import { bullies, type BullyNode } from "../models/bully.js";
import { PaxosDecree, type PaxosFlaw } from "../models/paxos.js";
import { SimulatedProcess } from "../process.js";
import { Simulation } from "../simulation.js";
import { cutApart } from "./look-raft.js";
import { must, mustBreak, mustHold, mustLose, type Scenario } from "./scenario.js";

const SOON_MS = 20_000;

export const lookElectionScenarios: readonly Scenario[] = [
  {
    id: 0,
    name: "bully-split",
    title: "The bully algorithm, and a cut: each side has a leader, and nothing tells them apart.",
    play: splitBullies,
    check(result) {
      mustBreak(result, ["I8"], ["I5"]);
      // Both come with the same token, as there are no terms: only its holder tells who armed.
      mustLose(result, ["none", "naive"]);
      const conflicts = result.of("arm").filter(({ why }) => why === "conflict");
      must((conflicts.length > 0) === (result.fence === "armed"), "B3 was not refused as it must");
    },
  },
  {
    id: 0,
    name: "paxos-election",
    title: "Three proposers and five acceptors decide on one name, for good.",
    async play(sim) {
      await tell(sim, () => electByPaxos(sim));
      await showPaxosFlaws(sim);
    },
    check(result) {
      mustHold(result);
      // It is decided once, so there are no two leaders to tell apart, and nothing is written.
      mustLose(result, []);
      must(result.of("elected").length === 1, "more than one name was chosen");
      must(result.of("note").length === 2, "not both flaws were shown");
    },
  },
];

async function splitBullies(sim: Simulation): Promise<void> {
  const { world, network } = sim;
  const nodes = bullies(world, network);
  const names = nodes.map(({ process }) => process.name);
  for (const node of nodes) keepWriting(sim, node).catch((error: unknown) => world.fail(error));
  await world.run(10_000);
  const leading = (): string =>
    nodes.flatMap(({ isLeader, process }) => (isLeader ? [process.name] : [])).join(" ");
  must(leading() === "B5", `before the cut ${leading()} led`);
  cutApart(sim, names.slice(0, 3), names.slice(3));
  await world.run(40_000);
  must(leading() === "B3 B5", `with the cut ${leading()} led`);
  network.healAll();
  await world.run(50_000);
  must(leading() === "B5", `after the cut ${leading()} led`);
}

/** What a leader does here as long as it takes itself for one. */
async function keepWriting(sim: Simulation, node: BullyNode): Promise<void> {
  const { process } = node;
  const { random } = process.runtime;
  const { name } = process;
  const bearer = { name: "bully", holder: name, storeId: "bully", token: toToken(1n) };
  for (;;) {
    await process.sleep(300 + 400 * random.uniform());
    if (!node.isLeader) continue;
    await refusalOf(
      (async () => {
        const access = await sim.resource.open(process, bearer, "account");
        const base = await access.read();
        await process.sleep(300 + 400 * random.uniform());
        if (node.isLeader) await access.write(base);
      })(),
    );
  }
}

async function electByPaxos(sim: Simulation): Promise<void> {
  const { world, network } = sim;
  network.disturb({ loss: 0.02 });
  const proposers = ["X", "Y", "Z"].map((name) => new SimulatedProcess(world, name));
  const decree = new PaxosDecree(world, network);
  const answers = await Promise.all(
    proposers.map((proposer, i) => decree.propose(proposer, i + 1, 50)),
  );
  const [chosen] = decree.chosen;
  must(
    answers.every((answer) => answer === chosen),
    `${chosen} was chosen, and the proposers heard ${answers.join(" ")}`,
  );
  const late = new SimulatedProcess(world, "L");
  for (const acceptor of decree.acceptors.slice(0, 2)) acceptor.kill();
  const heard = await decree.propose(late, 4, 50);
  must(heard === chosen, `with three of five alive a late proposer heard ${heard}`);
  decree.acceptors[2]!.kill();
  const none = await decree.propose(late, 5, 20);
  must(none === undefined, `with two of five alive a proposer heard ${none}`);
}

async function showPaxosFlaws({ world }: Simulation): Promise<void> {
  for (const flaw of ["own-value", "breaks-promise"] as const) {
    const [sound, flawed] = [await duel(world.seed), await duel(world.seed, flaw)];
    must(sound === 1, `${sound} names were chosen`);
    must(flawed === 2, `with the flaw ${flaw} ${flawed} names were chosen`);
    world.history.add({ kind: "note", text: `with the flaw ${flaw} two names were chosen` });
  }
}

/** X is held up between its two halves; Y comes in between. Answers how many names were chosen. */
async function duel(seed: number, flaw?: PaxosFlaw): Promise<number> {
  const sim = new Simulation({ seed, fence: "none" });
  const { world, network } = sim;
  const decree = new PaxosDecree(world, network, flaw);
  const [x, y] = [new SimulatedProcess(world, "X"), new SimulatedProcess(world, "Y")];
  network.plan = ({ from, what }) =>
    from === "X" && what === "accept" ? { holdMs: 60 } : undefined;
  const story = async (): Promise<void> => {
    const slow = decree.propose(x, 1, 1);
    await world.pass(20);
    await decree.propose(y, 2, 1);
    await slow;
    await decree.propose(x, 1, 5);
  };
  await world.until(story(), SOON_MS);
  return decree.chosen.length;
}

