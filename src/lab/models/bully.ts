/**
 * The bully algorithm, to look at: of all nodes that answer, the one of the highest rank leads.
 * After Garcia-Molina, "Elections in a distributed computing system" (1982). It takes for granted
 * that who does not answer is dead. Where a cut divides the nodes each side has a leader, and as
 * there are no terms nothing tells the two apart.
 */
import type { Timer } from "../../core/clock.js";
import type { Network } from "../network.js";
import { SimulatedProcess } from "../process.js";
import type { World } from "../world.js";

const ALIVE_EVERY_MS = 300;
const SILENT_MS = 1_000;
const ANSWER_MS = 100;

/** Nodes by rank, the lowest first. */
export function bullies(world: World, network: Network, count = 5): readonly BullyNode[] {
  const nodes: BullyNode[] = [];
  for (let rank = 1; rank <= count; rank++) {
    nodes.push(new BullyNode(new SimulatedProcess(world, `B${rank}`), network, rank, nodes));
  }
  for (const node of nodes) node.start();
  return nodes;
}

/** One node. */
export class BullyNode {
  readonly process: SimulatedProcess;
  readonly rank: number;
  readonly #network: Network;
  readonly #all: readonly BullyNode[];
  #isLeader = false;
  #isStanding = false;
  #silence: Timer | undefined;

  constructor(
    process: SimulatedProcess,
    network: Network,
    rank: number,
    all: readonly BullyNode[],
  ) {
    this.process = process;
    this.rank = rank;
    this.#network = network;
    this.#all = all;
  }

  get isLeader(): boolean {
    return this.#isLeader;
  }

  start(): void {
    this.#stand();
  }

  #send(to: BullyNode, what: string, arrive: () => void): void {
    this.#network.send(this.process, to.process, what, arrive);
  }

  #others(isWanted: (node: BullyNode) => boolean = () => true): readonly BullyNode[] {
    return this.#all.filter((node) => node !== this && isWanted(node));
  }

  /** Asks those above; if none of them says that it lives, this node leads. */
  #stand(): void {
    if (this.#isStanding || this.#isLeader) return;
    this.#isStanding = true;
    let isOutranked = false;
    for (const other of this.#others(({ rank }) => rank > this.rank)) {
      this.#send(other, "election", () => {
        other.#send(this, "alive", () => void (isOutranked = true));
        other.#stand();
      });
    }
    this.process.runtime.timers.after(ANSWER_MS, () => {
      this.#isStanding = false;
      if (isOutranked) this.#expectLeader();
      else this.#lead();
    });
  }

  #lead(): void {
    this.#silence?.cancel();
    this.#isLeader = true;
    this.#note("elected");
    this.#beat();
  }

  #beat(): void {
    if (!this.#isLeader) return;
    for (const other of this.#others()) {
      this.#send(other, "coordinator", () => other.#follow(this));
    }
    this.process.runtime.timers.after(ALIVE_EVERY_MS, () => this.#beat());
  }

  #follow(leader: BullyNode): void {
    // The higher one bullies the lower one out.
    if (leader.rank < this.rank) return this.#stand();
    if (this.#isLeader) {
      this.#isLeader = false;
      this.#note("revoked");
    }
    this.#expectLeader();
  }

  #expectLeader(): void {
    this.#silence?.cancel();
    this.#silence = this.process.runtime.timers.after(SILENT_MS, () => this.#stand());
  }

  #note(kind: "elected" | "revoked"): void {
    const { world, name } = this.process;
    world.history.add({ kind, key: "bully", client: name, term: "0" });
  }
}
