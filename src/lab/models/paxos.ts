/**
 * A single decree of Paxos, to look at: who is to lead is decided once, by a majority of acceptors,
 * and stays decided. After Lamport, "Paxos made simple" (2001), section 2.
 *
 * A **proposer** first asks for promises under a ballot that is higher than any it knows, and then
 * asks the acceptors to accept. If one of those that promised has accepted something before, the
 * proposer takes that value (the one of the highest ballot) and not its own. What a majority has
 * accepted under one ballot is **chosen**.
 */
import type { Timer } from "../../core/clock.js";
import type { Network } from "../network.js";
import { SimulatedProcess } from "../process.js";
import type { World } from "../world.js";

/**
 * What is wrong on purpose.
 *
 * - `own-value`: a proposer pushes its own value, whatever was accepted before
 * - `breaks-promise`: an acceptor accepts under a ballot lower than the one it has promised
 */
export type PaxosFlaw = "own-value" | "breaks-promise";

interface Accepted {
  readonly ballot: number;
  readonly value: string;
}

/** How long a proposer waits for a majority, and rests before it tries again, milliseconds. */
const PATIENCE_MS = 100;
const REST_MS = [50, 500] as const;

/** One decree: five acceptors, and whoever proposes. */
export class PaxosDecree {
  readonly acceptors: readonly SimulatedProcess[];
  /** Values that a majority has accepted, in order: never more than one, unless there is a flaw. */
  readonly chosen: string[] = [];
  readonly #world: World;
  readonly #network: Network;
  readonly #flaw: PaxosFlaw | undefined;
  readonly #promised = new Map<SimulatedProcess, number>();
  readonly #accepted = new Map<SimulatedProcess, Accepted>();
  readonly #votes = new Map<number, Set<string>>();

  constructor(world: World, network: Network, flaw?: PaxosFlaw) {
    this.#world = world;
    this.#network = network;
    this.#flaw = flaw;
    this.acceptors = [1, 2, 3, 4, 5].map((nth) => new SimulatedProcess(world, `P${nth}`));
  }

  get quorum(): number {
    return Math.floor(this.acceptors.length / 2) + 1;
  }

  /**
   * Proposes until a majority has accepted something, and answers what; undefined when none did in
   * `tries` ballots. Ballots of proposer `nth` of 10 are nth, nth + 10, …
   */
  async propose(
    proposer: SimulatedProcess,
    nth: number,
    tries: number,
  ): Promise<string | undefined> {
    const { random } = proposer.runtime;
    for (let round = 1; round <= tries; round++) {
      const ballot = round * 10 + nth;
      const value = await this.#ask(proposer, ballot);
      if (value !== undefined && (await this.#push(proposer, ballot, value))) return value;
      const [from, to] = REST_MS;
      await proposer.sleep(from + random.uniform() * (to - from));
    }
    return undefined;
  }

  /** First half: promises of a majority, and the value that is to be proposed. */
  async #ask(proposer: SimulatedProcess, ballot: number): Promise<string | undefined> {
    let highest: Accepted | undefined;
    const isMajority = await this.#poll(proposer, "prepare", (acceptor) => {
      if (ballot <= (this.#promised.get(acceptor) ?? 0)) return undefined;
      this.#promised.set(acceptor, ballot);
      const before = this.#accepted.get(acceptor);
      return () => {
        if (before !== undefined && before.ballot > (highest?.ballot ?? 0)) highest = before;
      };
    });
    if (!isMajority) return undefined;
    return this.#flaw === "own-value" ? proposer.name : (highest?.value ?? proposer.name);
  }

  /** Second half: whether a majority has accepted. */
  #push(proposer: SimulatedProcess, ballot: number, value: string): Promise<boolean> {
    return this.#poll(proposer, "accept", (acceptor) => {
      const isPromised = ballot < (this.#promised.get(acceptor) ?? 0);
      if (isPromised && this.#flaw !== "breaks-promise") return undefined;
      this.#promised.set(acceptor, ballot);
      this.#accepted.set(acceptor, { ballot, value });
      this.#count(acceptor, ballot, value);
      return () => undefined;
    });
  }

  /** Asks all acceptors, each of which says no by saying nothing; true once a majority said yes. */
  #poll(
    proposer: SimulatedProcess,
    what: string,
    decide: (acceptor: SimulatedProcess) => (() => void) | undefined,
  ): Promise<boolean> {
    return new Promise((resolve) => {
      // A message may come twice: acceptors count, and not answers.
      const yes = new Set<SimulatedProcess>();
      let timer: Timer | undefined = undefined;
      const settle = (isMajority: boolean): void => {
        timer?.cancel();
        resolve(isMajority);
      };
      timer = proposer.runtime.timers.after(PATIENCE_MS, () => settle(false));
      for (const acceptor of this.acceptors) {
        this.#network.send(proposer, acceptor, what, () => {
          const hear = decide(acceptor);
          if (hear === undefined) return;
          this.#network.send(acceptor, proposer, `${what} yes`, () => {
            hear();
            if (yes.add(acceptor).size === this.quorum) settle(true);
          });
        });
      }
    });
  }

  /** What is chosen is so before anybody knows it. */
  #count(acceptor: SimulatedProcess, ballot: number, value: string): void {
    const votes = this.#votes.get(ballot) ?? new Set();
    this.#votes.set(ballot, votes.add(acceptor.name));
    if (votes.size !== this.quorum || this.chosen.includes(value)) return;
    this.chosen.push(value);
    this.#world.history.add({ kind: "elected", key: "paxos", client: value, term: "1" });
  }
}
