/**
 * A critical section of the user's in a simulated world: the same function, run by several clients
 * that contend for one name, under virtual time and with faults at places of one's choice.
 */
import { parseDuration, type Duration } from "../core/duration.js";
import { ArgumentRangeError, ArgumentTypeError, TenureError } from "../core/errors.js";
import type { Lease } from "../core/lease.js";
import { toToken, type FencingToken, type TokenBearer } from "../core/token.js";
import { drawFault } from "./faults.js";
import type { HistoryEvent } from "./history.js";
import type { NetworkOptions } from "./network.js";
import type { SimulatedProcess } from "./process.js";
import { html } from "./report/html.js";
import type { Reported } from "./report/reported.js";
import { timeline } from "./report/timeline.js";
import type { Access, FenceMode } from "./resource.js";
import { Simulation, type Client, type MakeStore, type Outcome } from "./simulation.js";
import { Belief, write } from "./worker.js";

/** When a fault strikes: after some time of the run, or where the work comes to a `point`. */
export type When = { readonly after: Duration } | { readonly at: string };

/** As many as there are letters. */
const MOST_CLIENTS = 26;

/** What is asked of the lab's own scenarios and random runs. */
const UNASKED = Object.fromEntries(
  (["I9", "I10", "I11", "I13"] as const).map((id) => [id, "not asked of a simulation"]),
);

/** The first comes first: milliseconds between the beginnings of clients. */
const APART_MS = 100;

/** What is done to one client, by its name: `A`, `B`, … */
export type SimulatedFault = { readonly client: string } & When &
  (
    | { readonly pause: Duration }
    | { readonly suspend: Duration }
    | { readonly cut: "store" | "resource"; readonly for: Duration }
    | {
        readonly hold: "acquire" | "renew" | "release" | "arm" | "read" | "write";
        readonly for: Duration;
      }
    | { readonly wallClock: number }
    | { readonly kill: true }
  );

/** Settings of a simulation. */
export interface SimulateOptions {
  /** What chance is made of: the same seed is the same run. Default 1. */
  readonly seed?: number;
  /** Default `armed`. */
  readonly fence?: FenceMode;
  /** Name that the clients contend for. Default `job`. */
  readonly name?: string;
  /** Default 10 s. */
  readonly ttl?: Duration;
  /** Clients, `A`, `B`, …, who begin in that order. Default 2, most 26. */
  readonly clients?: number;
  /** How often each does the work. Default 1; with random faults, until the time is over. */
  readonly turns?: number;
  /** Faults in particular, or `"random"` ones all the time. Default none. */
  readonly faults?: readonly SimulatedFault[] | "random";
  /** Default a single store that is polled. */
  readonly store?: MakeStore;
  readonly network?: NetworkOptions;
  /** Longest simulated time. Default 10 min. */
  readonly for?: Duration;
}

/** What the work is given. */
export interface Section {
  /** Name of the client that does it. */
  readonly client: string;
  readonly lease: Lease<FencingToken | undefined>;
  /** The lease's signal. */
  readonly signal: AbortSignal;
  /**
   * A register, opened with the lease and under `armed` already armed. `write(base)` writes a new
   * value made from the one that was read, and answers it.
   */
  readonly resource: Access;
  /** Waits on the client's own clock. Anything that waits otherwise waits in vain. */
  sleep(ms: number): Promise<void>;
  /** A place at which a fault can strike, `{ at: label }`; there are also `granted` and `done`. */
  point(label: string): Promise<void>;
  /** A number in [0, 1), of the seed. */
  random(): number;
}

/** A critical section. */
export type Work = (section: Section) => Promise<void>;

/** What came of a simulation. */
export interface Simulated extends Outcome {
  readonly events: readonly HistoryEvent[];
  /** Turns that were not over when the time was. */
  readonly unfinished: number;
  /** Errors of Tenure with which turns ended, in order: `A: LeaseLostError: …`. */
  readonly errors: readonly string[];
  /** Faults that did not strike: nobody came to their point, or the time was over. */
  readonly missed: readonly SimulatedFault[];
  /** The run as lines of text. */
  timeline(): string;
  /** The run as a page; further runs stand below it, on the same scale of time. */
  html(...others: readonly Simulated[]): string;
  /** The run as reports take it. */
  readonly reported: Reported;
}

/**
 * Runs `work` under a lease in each of several simulated clients, with the real code of Tenure, and
 * checks the history. Does not promise to control what `work` does outside of what it is given:
 * real timers, real randomness and real I/O know nothing of the simulated time.
 *
 * @throws What `work` throws, unless it is an error of Tenure, which ends its turn.
 * @throws TypeError or RangeError for a wrong option.
 */
export async function simulate(options: SimulateOptions, work: Work): Promise<Simulated> {
  const { seed = 1, fence = "armed", clients = 2, faults = [], store, network } = options;
  const sim = new Simulation({
    ...{ seed, fence },
    ...(store === undefined ? {} : { store }),
    ...(network === undefined ? {} : { network }),
  });
  const forMs = parseDuration(options.for ?? "10m", "for");
  if (!Number.isInteger(clients) || clients < 1 || clients > MOST_CLIENTS) {
    throw new ArgumentRangeError("clients", clients, `1 to ${MOST_CLIENTS}`);
  }
  const run = new Run(sim, options, work);
  for (let nth = 0; nth < clients; nth++) run.start(await sim.client(nameOf(nth)), nth);
  const chosen = faults === "random" ? [] : faults;
  const traps = chosen.map((fault) => ({ fault, hasStruck: set(fault, sim) }));
  if (faults === "random") strikeAtRandom(sim, run);
  await sim.world.run(forMs);
  const outcome = sim.outcome();
  const { violations, traceHash } = outcome;
  const { events } = sim.world.history;
  const scenario = "simulate";
  const replay = `simulate({ seed: ${seed}, fence: ${JSON.stringify(fence)}, … }, work)`;
  const about = { scenario, seed, fence, traceHash, replay, unasked: UNASKED };
  const reported: Reported = { ...about, events, violations };
  return {
    ...outcome,
    events,
    reported,
    unfinished: run.unfinished,
    errors: run.errors,
    missed: traps.filter(({ hasStruck }) => !hasStruck()).map(({ fault }) => fault),
    timeline: () => timeline(reported),
    html: (...others) => html([reported, ...others.map((other) => other.reported)], fence),
  };
}

/** The turns of all clients. */
class Run {
  readonly errors: string[] = [];
  unfinished = 0;
  readonly ttlMs: number;
  readonly key: string;
  readonly #sim: Simulation;
  readonly #turns: number;
  readonly #work: Work;

  constructor(sim: Simulation, options: SimulateOptions, work: Work) {
    this.#sim = sim;
    this.#work = work;
    this.ttlMs = parseDuration(options.ttl ?? "10s", "ttl");
    this.key = options.name ?? "job";
    this.#turns = options.turns ?? (options.faults === "random" ? Infinity : 1);
  }

  start(client: Client, nth: number): void {
    // Once the work threw, the run ends with its error: nobody waits for this promise.
    void this.#all(client, nth).catch((error: unknown) => this.#sim.world.fail(error));
  }

  async #all(client: Client, nth: number): Promise<void> {
    const { process } = client;
    const { random } = process.runtime;
    for (let turn = 0; turn < this.#turns; turn++) {
      const restMs = turn === 0 ? nth * APART_MS : 10 + random.uniform() * 990;
      await process.sleep(restMs);
      this.unfinished += 1;
      try {
        await this.#turn(client);
      } catch (error) {
        if (!(error instanceof TenureError)) throw error;
        this.errors.push(`${process.name}: ${error.name}: ${error.message}`);
      }
      this.unfinished -= 1;
    }
  }

  async #turn({ process, tenure }: Client): Promise<void> {
    const lease = await tenure.acquire(this.key, { ttl: this.ttlMs, wait: "1h" });
    const belief = new Belief(process, lease);
    belief.look();
    try {
      await process.point("granted");
      const resource = await this.#open(process, lease);
      await this.#work({
        ...{ client: process.name, lease, signal: lease.signal, resource },
        random: () => process.runtime.random.uniform(),
        sleep: async (ms) => {
          await process.sleep(ms);
          belief.look();
        },
        point: async (label) => {
          belief.look();
          await process.point(label);
        },
      });
    } finally {
      await process.point("done");
      belief.end(lease.state === "lost" ? "lost" : "released");
      await lease.release().catch((error: unknown) => {
        if (!(error instanceof TenureError)) throw error;
      });
    }
  }

  async #open(process: SimulatedProcess, lease: Lease<FencingToken | undefined>): Promise<Access> {
    const { name, holder, storeId, token } = lease;
    const bearer: TokenBearer =
      token === undefined ? { name, holder, storeId, token: toToken(1n) } : (lease as TokenBearer);
    const access = await this.#sim.resource.open(process, bearer, "resource");
    return {
      read: () => access.read(),
      write: async (base) => {
        let value = 0;
        const noted = { write: async (from: number) => (value = await access.write(from)) };
        await write(process, noted, "resource", lease, base);
        return value;
      },
    };
  }
}

/** Sets a trap for a client, or a time; answers whether it has struck. */
function set(fault: SimulatedFault, sim: Simulation): () => boolean {
  const { world, clients } = sim;
  const found = clients.find(({ process }) => process.name === fault.client);
  if (found === undefined) {
    const names = clients.map(({ process }) => process.name).join(" ");
    throw new ArgumentTypeError("faults.client", fault.client, `one of ${names}`);
  }
  const { process } = found;
  const strike = strikeOf(fault, process, sim);
  let hasStruck = false;
  const run = (): void => {
    hasStruck = true;
    strike();
  };
  if ("at" in fault) process.onPoint(fault.at, run);
  else world.after(parseDuration(fault.after, "faults.after", { zero: true }), run);
  return () => hasStruck;
}

function strikeOf(fault: SimulatedFault, process: SimulatedProcess, sim: Simulation): () => void {
  const { world, network, store } = sim;
  const { name } = process;
  if ("pause" in fault) {
    const ms = parseDuration(fault.pause, "faults.pause");
    return () => process.pauseFor(ms);
  }
  if ("suspend" in fault) {
    const ms = parseDuration(fault.suspend, "faults.suspend");
    return () => process.suspendFor(ms);
  }
  if ("wallClock" in fault) return () => process.jumpWall(fault.wallClock);
  if ("kill" in fault) return () => process.kill();
  const ms = parseDuration(fault.for, "faults.for");
  if ("hold" in fault) {
    return () => network.once({ from: name, what: fault.hold }, { holdMs: ms });
  }
  return () => {
    const other = fault.cut === "store" ? store.find().server.name : "resource";
    network.isolate(name, other);
    world.after(ms, () => {
      network.heal(name, other);
      network.heal(other, name);
    });
  };
}

/** One fault after the other; the dead are replaced. */
function strikeAtRandom(sim: Simulation, run: Run): void {
  const { world, clients } = sim;
  const draws = world.draws.fork("faults");
  const wanted = clients.length;
  let born = wanted;
  let nth = 0;
  const strike = (): void => {
    const living = clients.map(({ process }) => process).filter(({ isAlive }) => isAlive);
    const target = draws.pick(living);
    const own = draws.fork(`fault ${nth++}`);
    drawFault({ sim, target, draws: own, isOn: () => true, key: run.key }).strike();
    const alive = clients.filter(({ process }) => process.isAlive).length;
    for (let dead = wanted - alive; dead > 0; dead--) {
      void sim.client(nameOf(born++)).then((client) => run.start(client, 0));
    }
    world.after(draws.between(1_000, 20_000), strike);
  };
  world.after(draws.between(1_000, 10_000), strike);
}

function nameOf(nth: number): string {
  const letter = String.fromCharCode(65 + (nth % 26));
  return nth < 26 ? letter : `${letter}${Math.floor(nth / 26)}`;
}
