/**
 * An election as Raft has it, to look at: five nodes, terms, a log, and nothing that counts before
 * a majority has it. After the paper of Ongaro and Ousterhout (2014), sections 5.1 to 5.4, with the
 * leader's own look at its majority from section 6.2 of Ongaro's thesis; no snapshots, no changes
 * of members, and no restarts.
 *
 * A **follower** that hears nothing from a leader for its time-out becomes a **candidate** of the
 * next term. One vote for each term and node makes one **leader** for each term at most; a node
 * votes for nobody whose log is behind its own, so a leader has all that was committed. A leader
 * that has not heard from a majority for the shortest time-out says that it is none.
 */
import type { Timer } from "../../core/clock.js";
import type { Network } from "../network.js";
import { SimulatedProcess } from "../process.js";
import type { World } from "../world.js";

/**
 * What is wrong with the nodes on purpose.
 *
 * - `votes-twice`: a node forgets for whom it has voted in a term
 * - `commits-alone`: a leader takes its own copy for a majority
 * - `never-steps-down`: a leader goes on without hearing from a majority
 */
export type RaftFlaw = "votes-twice" | "commits-alone" | "never-steps-down";

/** Settings of a group. */
export interface RaftOptions {
  readonly nodes?: number;
  /** From within which each node draws its time-outs, milliseconds. Default 1,000 to 2,000. */
  readonly timeoutMs?: readonly [number, number];
  readonly flaw?: RaftFlaw;
}

/** What became of a proposal: `refused` was not even noted, `unknown` may be committed later. */
export type Proposed = "committed" | "refused" | "unknown";

interface LogEntry {
  readonly term: number;
  readonly value: string;
}

interface Append {
  readonly term: number;
  readonly leader: string;
  /** Number of entries before the ones that are sent, and the term of the last of them. */
  readonly prevLength: number;
  readonly prevTerm: number;
  readonly entries: readonly LogEntry[];
  readonly committed: number;
}

const HEARTBEAT_MS = 250;

/** A group of nodes, and what they have committed. */
export class RaftGroup {
  readonly nodes: readonly RaftNode[];
  /** What was committed at each place of the log, by all who committed there. */
  readonly committed: Map<number, Set<string>> = new Map();

  constructor(world: World, network: Network, options: RaftOptions = {}) {
    const names = Array.from({ length: options.nodes ?? 5 }, (_, i) => `N${i + 1}`);
    this.nodes = names.map((name) => {
      return new RaftNode(new SimulatedProcess(world, name), network, this, options);
    });
    for (const node of this.nodes) node.start();
  }

  /** Those that take themselves for the leader, in ascending order of their terms. */
  get leaders(): readonly RaftNode[] {
    const leading = this.nodes.filter(({ process, isLeader }) => process.isAlive && isLeader);
    return leading.sort((a, b) => a.term - b.term);
  }

  /** Places of the log at which different things were committed. */
  get splits(): readonly number[] {
    return [...this.committed].filter(([, values]) => values.size > 1).map(([place]) => place);
  }

  /** Waits for a leader that runs, other than `but`, by looking at all nodes. */
  async leader(world: World, limitMs: number, but?: RaftNode): Promise<RaftNode | undefined> {
    const endMs = world.nowMs + limitMs;
    for (;;) {
      const found = this.leaders.findLast((node) => node !== but && node.process.isRunning);
      if (found !== undefined || world.nowMs >= endMs) return found;
      await world.pass(50);
    }
  }
}

/** One node. */
export class RaftNode {
  readonly process: SimulatedProcess;
  term = 0;
  isLeader = false;
  readonly #network: Network;
  readonly #group: RaftGroup;
  readonly #options: RaftOptions;
  #votedFor: string | undefined;
  #log: LogEntry[] = [];
  #committed = 0;
  /** Undefined for all but a candidate. */
  #votes: Set<string> | undefined;
  /** Of each other node: how much of the log it has for certain, and when it answered last. */
  readonly #matched = new Map<RaftNode, number>();
  readonly #heardMs = new Map<RaftNode, number>();
  #pending: { readonly length: number; readonly settle: (outcome: Proposed) => void }[] = [];
  #timer: Timer | undefined;

  constructor(
    process: SimulatedProcess,
    network: Network,
    group: RaftGroup,
    options: RaftOptions,
  ) {
    this.process = process;
    this.#network = network;
    this.#group = group;
    this.#options = options;
  }

  get name(): string {
    return this.process.name;
  }

  start(): void {
    this.#awaitLeader();
  }

  /** Adds to the log, if this node leads, and waits until it is committed. */
  propose(value: string): Promise<Proposed> {
    if (!this.isLeader) return Promise.resolve("refused");
    const length = this.#log.push({ term: this.term, value });
    const settled = new Promise<Proposed>((settle) => void this.#pending.push({ length, settle }));
    this.#advance();
    this.#sendAll();
    return settled;
  }

  get #others(): readonly RaftNode[] {
    return this.#group.nodes.filter((node) => node !== this);
  }

  get #quorum(): number {
    return Math.floor(this.#group.nodes.length / 2) + 1;
  }

  get #lastTerm(): number {
    return this.#log.at(-1)?.term ?? 0;
  }

  get #timeoutMs(): readonly [number, number] {
    return this.#options.timeoutMs ?? [1_000, 2_000];
  }

  #send(to: RaftNode, what: string, arrive: () => void): void {
    this.#network.send(this.process, to.process, what, arrive);
  }

  #set(delayMs: number, run: () => void): void {
    this.#timer?.cancel();
    this.#timer = this.process.runtime.timers.after(delayMs, run);
  }

  #awaitLeader(): void {
    const [from, to] = this.#timeoutMs;
    const ms = from + this.process.runtime.random.uniform() * (to - from);
    this.#set(ms, () => this.#stand());
  }

  #stand(): void {
    this.#enterTerm(this.term + 1);
    this.#votedFor = this.name;
    this.#votes = new Set([this.name]);
    const { term } = this;
    const [length, lastTerm] = [this.#log.length, this.#lastTerm];
    for (const other of this.#others) {
      this.#send(other, "request vote", () => other.#vote(this, term, length, lastTerm));
    }
  }

  #vote(candidate: RaftNode, term: number, length: number, lastTerm: number): void {
    if (term > this.term) this.#enterTerm(term);
    const isBehind =
      lastTerm < this.#lastTerm || (lastTerm === this.#lastTerm && length < this.#log.length);
    const isFree =
      this.#votedFor === undefined ||
      this.#votedFor === candidate.name ||
      this.#options.flaw === "votes-twice";
    if (term < this.term || isBehind || !isFree) return;
    this.#votedFor = candidate.name;
    this.#awaitLeader();
    this.#send(candidate, "vote", () => candidate.#counted(this, term));
  }

  #counted(voter: RaftNode, term: number): void {
    if (term !== this.term || this.#votes === undefined) return;
    this.#votes.add(voter.name);
    if (this.#votes.size < this.#quorum) return;
    this.#votes = undefined;
    this.isLeader = true;
    this.#note("elected");
    const nowMs = this.process.runtime.clock.monotonicMs();
    for (const other of this.#others) {
      this.#matched.set(other, 0);
      this.#heardMs.set(other, nowMs);
    }
    this.#beat();
  }

  #beat(): void {
    const nowMs = this.process.runtime.clock.monotonicMs();
    const [shortestMs] = this.#timeoutMs;
    const heard = this.#others.filter((other) => nowMs - this.#heardMs.get(other)! < shortestMs);
    if (heard.length + 1 < this.#quorum && this.#options.flaw !== "never-steps-down") {
      this.#follow();
      this.#awaitLeader();
      return;
    }
    this.#sendAll();
    this.#set(HEARTBEAT_MS, () => this.#beat());
  }

  #sendAll(): void {
    for (const other of this.#others) {
      // All that it may lack: the logs of the lab are short.
      const prevLength = this.#matched.get(other)!;
      const append: Append = {
        term: this.term,
        leader: this.name,
        prevLength,
        prevTerm: this.#log[prevLength - 1]?.term ?? 0,
        entries: this.#log.slice(prevLength),
        committed: this.#committed,
      };
      this.#send(other, "append", () => other.#append(this, append));
    }
  }

  #append(leader: RaftNode, append: Append): void {
    const { term, prevLength, prevTerm, entries, committed } = append;
    if (term > this.term || (term === this.term && !this.isLeader)) {
      if (term > this.term) this.#enterTerm(term);
      this.#votes = undefined;
      this.#awaitLeader();
      const fits = (this.#log[prevLength - 1]?.term ?? 0) === prevTerm;
      if (fits && prevLength <= this.#log.length) {
        const length = prevLength + entries.length;
        const differs = entries.some((entry, i) => this.#log[prevLength + i]?.term !== entry.term);
        // What comes after may be there already, from a message that overtook this one.
        if (differs) this.#log = [...this.#log.slice(0, prevLength), ...entries];
        this.#commit(Math.min(committed, length));
        this.#send(leader, "appended", () => leader.#appended(this, term, length));
        return;
      }
    }
    const now = this.term;
    this.#send(leader, "refused", () => {
      if (now > leader.term) leader.#enterTerm(now);
    });
  }

  #appended(other: RaftNode, term: number, length: number): void {
    if (!this.isLeader || term !== this.term) return;
    this.#heardMs.set(other, this.process.runtime.clock.monotonicMs());
    this.#matched.set(other, Math.max(this.#matched.get(other)!, length));
    this.#advance();
  }

  /** Commits what a majority has, if it is of this leader's own term. */
  #advance(): void {
    const quorum = this.#options.flaw === "commits-alone" ? 1 : this.#quorum;
    const lengths = [this.#log.length, ...this.#matched.values()].sort((a, b) => b - a);
    const length = lengths[quorum - 1]!;
    if (length <= this.#committed || this.#log[length - 1]!.term !== this.term) return;
    this.#commit(length);
    const [done, pending] = [
      this.#pending.filter((one) => one.length <= length),
      this.#pending.filter((one) => one.length > length),
    ];
    this.#pending = pending;
    for (const { settle } of done) settle("committed");
  }

  #commit(length: number): void {
    for (; this.#committed < length; this.#committed++) {
      const { term, value } = this.#log[this.#committed]!;
      const all = this.#group.committed.get(this.#committed) ?? new Set();
      this.#group.committed.set(this.#committed, all.add(`${value} (term ${term})`));
    }
  }

  #enterTerm(term: number): void {
    this.#follow();
    this.term = term;
    this.#votes = undefined;
    this.#votedFor = undefined;
    this.#awaitLeader();
  }

  #follow(): void {
    if (!this.isLeader) return;
    this.isLeader = false;
    this.#note("revoked");
    for (const { settle } of this.#pending.splice(0)) settle("unknown");
  }

  #note(kind: "elected" | "revoked"): void {
    const { world, name } = this.process;
    world.history.add({ kind, key: "raft", client: name, term: String(this.term) });
  }
}
