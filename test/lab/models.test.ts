import { describe, expect, test } from "vitest";
import { PaxosDecree } from "../../src/lab/models/paxos.js";
import { RaftGroup, type RaftNode, type RaftOptions } from "../../src/lab/models/raft.js";
import { Network } from "../../src/lab/network.js";
import { SimulatedProcess } from "../../src/lab/process.js";
import { World } from "../../src/lab/world.js";

const SEEDS = 25;
const PAXOS_SEEDS = 100;

/** What a group came to under random faults. */
interface Came {
  readonly group: RaftGroup;
  readonly terms: readonly string[];
  /** What was answered as committed. */
  readonly promised: readonly string[];
}

/** A minute of cuts, pauses, losses and repeats, while clients propose; then some peace. */
async function runRaft(seed: number, options: RaftOptions = {}): Promise<Came> {
  const world = new World(seed);
  const network = new Network(world);
  const group = new RaftGroup(world, network, options);
  const draws = world.draws.fork("faults");
  network.disturb({ loss: draws.between(0, 0.1), duplicate: draws.between(0, 0.1) });
  const promised: string[] = [];
  let count = 0;
  const propose = (): void => {
    // Every node is asked: those that do not lead refuse.
    for (const node of group.nodes) {
      const value = `v${++count}`;
      const answered = (outcome: string): void =>
        void (outcome === "committed" && promised.push(value));
      if (node.process.isRunning) void node.propose(value).then(answered);
    }
    if (world.nowMs < 60_000) world.after(draws.between(50, 400), propose);
  };
  const strike = (): void => {
    if (world.nowMs > 60_000) return network.healAll();
    const [one, other]: readonly RaftNode[] = [draws.pick(group.nodes), draws.pick(group.nodes)];
    if (draws.chance(0.3)) one!.process.pauseFor(draws.between(500, 5_000));
    else if (one !== other) network.cut(one!.name, other!.name);
    if (draws.chance(0.3)) network.healAll();
    world.after(draws.between(100, 1_500), strike);
  };
  propose();
  strike();
  await world.run(61_000);
  network.disturb({ loss: 0, duplicate: 0 });
  network.healAll();
  await world.run(75_000);
  const terms = world.history.of("elected").map(({ term }) => term);
  return { group, terms, promised };
}

function committedBy({ group }: Came): readonly string[] {
  return [...group.committed.values()].flatMap((values) =>
    [...values].map((text) => text.split(" ")[0]!),
  );
}

describe("the model of Raft, under random faults", () => {
  test("has one leader for each term, and keeps what it has promised", async () => {
    let promised = 0;
    for (let seed = 1; seed <= SEEDS; seed++) {
      const came = await runRaft(seed);
      expect(new Set(came.terms).size, `seed ${seed}`).toBe(came.terms.length);
      expect(came.group.splits, `seed ${seed}`).toEqual([]);
      const committed = new Set(committedBy(came));
      expect(came.promised.filter((value) => !committed.has(value)), `seed ${seed}`).toEqual([]);
      expect(came.group.leaders, `seed ${seed}`).toHaveLength(1);
      promised += came.promised.length;
    }
    expect(promised).toBeGreaterThan(50 * SEEDS);
  });

  test("shows two leaders of a term where nodes vote twice", async () => {
    let doubled = 0;
    for (let seed = 1; seed <= SEEDS; seed++) {
      const { terms } = await runRaft(seed, { flaw: "votes-twice", timeoutMs: [1_000, 1_040] });
      doubled += terms.length - new Set(terms).size;
    }
    expect(doubled).toBeGreaterThan(0);
  });

  test("shows two entries in one place where a leader commits alone", async () => {
    let split = 0;
    for (let seed = 1; seed <= SEEDS; seed++) {
      const { group } = await runRaft(seed, { flaw: "commits-alone" });
      split += group.splits.length;
    }
    expect(split).toBeGreaterThan(0);
  });
});

describe("the model of Paxos, with lost, doubled and late messages", () => {
  const names = ["X", "Y", "Z"];

  async function decide(seed: number, flaw?: "own-value" | "breaks-promise"): Promise<number> {
    const world = new World(seed);
    const network = new Network(world, { maxMs: 80, loss: 0.15, duplicate: 0.15 });
    const decree = new PaxosDecree(world, network, flaw);
    const all = names.map((name, i) =>
      decree.propose(new SimulatedProcess(world, name), i + 1, 200),
    );
    const answers = await world.until(Promise.all(all), 600_000);
    if (flaw === undefined) expect(new Set(answers).size, `seed ${seed}`).toBe(1);
    expect(decree.chosen, `seed ${seed}`).toContain(answers[0]);
    return decree.chosen.length;
  }

  test("chooses one name, and tells all proposers the same", async () => {
    for (let seed = 1; seed <= PAXOS_SEEDS; seed++) {
      expect(await decide(seed), `seed ${seed}`).toBe(1);
    }
  });

  test("counts acceptors, and not their answers", async () => {
    const world = new World(1);
    const network = new Network(world);
    const decree = new PaxosDecree(world, network);
    network.plan = ({ to, what }) => {
      if (what !== "accept") return undefined;
      return to === "P1" || to === "P2" ? { againAfterMs: 2 } : { drop: true };
    };
    const proposed = decree.propose(new SimulatedProcess(world, "X"), 1, 3);
    expect(await world.until(proposed, 60_000)).toBeUndefined();
    expect(decree.chosen).toEqual([]);
  });

  test.each(["own-value", "breaks-promise"] as const)("chooses two with %s", async (flaw) => {
    let most = 0;
    for (let seed = 1; seed <= PAXOS_SEEDS; seed++) most = Math.max(most, await decide(seed, flaw));
    expect(most).toBeGreaterThan(1);
  });
});
