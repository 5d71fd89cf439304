/**
 * A run in which chance decides: clients work and stand for election, and are paused, suspended,
 * killed and cut off, their clocks jump, and the network loses, doubles and delays. Then all faults
 * heal, every client that lives has to come to its turn, and all are closed. What fails is found
 * again by its seed.
 */
import { observe, stand } from "./candidate.js";
import { judgeClients } from "./checkers/clients.js";
import type { Violation } from "./checkers/violation.js";
import { closeAll, heal } from "./closing.js";
import { drawFault } from "./faults.js";
import type { Network } from "./network.js";
import type { SimulatedProcess } from "./process.js";
import { Simulation, type Client, type Outcome, type SimulationOptions } from "./simulation.js";
import type { WorkerOptions } from "./worker.js";

/** Settings of a random run. */
export interface ChaosOptions extends SimulationOptions {
  /** How long faults strike, milliseconds. Default 440,000: 1,000 runs are 160 hours. */
  readonly forMs?: number;
  /** Default 3. */
  readonly clients?: number;
  /** Faults to leave out, by their number in the run: for shrinking. */
  readonly without?: ReadonlySet<number>;
  /** Lets the same faults meet other moments: another number, other delays. Default 0. */
  readonly salt?: number;
  /** Whether the network loses and doubles by itself, too. Default: chance decides. */
  readonly isLossy?: boolean;
  /** Whether clients stand for election, too. Default: chance decides, one in four. */
  readonly elects?: boolean;
  /** Whether all heals and is closed at the end, and what is owed then is checked. Default true. */
  readonly heals?: boolean;
  /** How a candidate stands, instead of the usual way. */
  readonly stand?: typeof stand;
  /** How workers work, where it is not left to chance. */
  readonly work?: Partial<WorkerOptions>;
}

/** A random run and what came of it. */
export interface ChaosResult extends Outcome {
  readonly sim: Simulation;
  /** The faults in their order, as they were meant; some may have met a process that was gone. */
  readonly plan: readonly string[];
  /** Whether the network lost and doubled by itself. */
  readonly isLossy: boolean;
}

const DEFAULT_MS = 440_000;
const LONGEST_TTL_MS = 10_000;
/** Long enough for each client to have its turn, and for what was held up to arrive. */
const HEALED_MS = 90_000;
const DEFAULT_KEY = "job";

/** One random run. The same settings give the same run. */
export async function chaos(options: ChaosOptions): Promise<ChaosResult> {
  const run = new ChaosRun(options);
  await run.play();
  return run.result();
}

class ChaosRun {
  readonly #options: ChaosOptions;
  readonly #sim: Simulation;
  readonly #draws;
  readonly #workers: Client[] = [];
  readonly #plan: string[] = [];
  readonly #over = new AbortController();
  readonly #isLossy: boolean;
  readonly #elects: boolean;
  readonly #ttlMs: number;
  #isOn = true;
  #starved: Violation[] = [];

  constructor(options: ChaosOptions) {
    this.#options = options;
    this.#sim = new Simulation(options);
    this.#draws = this.#sim.world.draws.fork("chaos");
    for (let nth = 0; nth < (options.salt ?? 0); nth++) this.#sim.world.draws.uniform();
    const [lossy, elects] = [this.#draws.chance(0.5), this.#draws.chance(0.25)];
    this.#isLossy = options.isLossy ?? lossy;
    this.#elects = options.elects ?? elects;
    this.#ttlMs = options.work?.ttlMs ?? LONGEST_TTL_MS;
    const losses = { loss: this.#draws.between(0, 0.03), duplicate: this.#draws.between(0, 0.03) };
    if (this.#isLossy) this.#network.disturb(losses);
  }

  async play(): Promise<void> {
    const { forMs = DEFAULT_MS, clients = 3 } = this.#options;
    const { world } = this.#sim;
    for (let i = 0; i < clients; i++) await this.#start();
    if (this.#elects) {
      const observer = await this.#sim.client("O");
      void observe(observer, { signal: this.#over.signal });
    }
    world.after(this.#draws.between(1_000, 10_000), () => this.#strike(clients));
    await world.run(forMs);
    if (this.#options.heals === false) return;
    await this.#heal();
    await this.#close();
  }

  result(): ChaosResult {
    const outcome = this.#sim.outcome();
    const clients = judgeClients(this.#sim, this.#ttlMs);
    const violations = [...outcome.violations, ...clients.violations, ...this.#starved];
    return { ...outcome, violations, sim: this.#sim, plan: this.#plan, isLossy: this.#isLossy };
  }

  get #network(): Network {
    return this.#sim.network;
  }

  get #living(): readonly Client[] {
    return this.#sim.clients.filter(({ process }) => process.isAlive);
  }

  async #start(): Promise<void> {
    const draws = this.#draws;
    const rate = draws.chance(0.3) ? draws.between(0.995, 1.005) : 1;
    const client = await this.#sim.client(`C${this.#workers.length + 1}`, { rate });
    this.#workers.push(client);
    void this.#sim.work(client, {
      key: DEFAULT_KEY,
      heeds: draws.chance(0.5),
      ttlMs: draws.pick([2_000, LONGEST_TTL_MS]),
      ...this.#options.work,
      isOver: () => this.#over.signal.aborted,
    });
    const forMs = draws.between(5_000, 60_000);
    if (this.#elects) {
      const standing = this.#options.stand ?? stand;
      void standing(client, { ttlMs: this.#ttlMs, forMs, signal: this.#over.signal });
    }
  }

  #strike(clients: number): void {
    if (!this.#isOn) return;
    const draws = this.#draws;
    // All may have died of something else meanwhile.
    if (this.#living.length > 0) this.#strikeAt(draws.pick(this.#living).process);
    const alive = this.#workers.filter(({ process }) => process.isAlive).length;
    for (let i = alive; i < clients; i++) void this.#start();
    this.#sim.world.after(draws.between(1_000, 20_000), () => this.#strike(clients));
  }

  #strikeAt(target: SimulatedProcess): void {
    const nth = this.#plan.length;
    const own = this.#draws.fork(`fault ${nth}`);
    const key = this.#options.work?.key ?? DEFAULT_KEY;
    const fault = drawFault({ sim: this.#sim, target, draws: own, isOn: () => this.#isOn, key });
    this.#plan.push(fault.text);
    // A fault that is left out is drawn all the same, so that the others stay as they were.
    if (this.#options.without?.has(nth) !== true) fault.strike();
  }

  /** I11: once all faults have healed, every client that lives has its turn. */
  async #heal(): Promise<void> {
    const { world } = this.#sim;
    this.#isOn = false;
    heal(this.#sim);
    const healedMs = world.nowMs;
    await world.run(healedMs + HEALED_MS);
    const served = new Set(
      world.history
        .of("believes")
        .filter(({ atMs }) => atMs >= healedMs)
        .map(({ client }) => client),
    );
    for (const { process } of this.#workers) {
      if (!process.isAlive || served.has(process.name)) continue;
      const text = `${process.name} had no turn within ${HEALED_MS} ms after all had healed`;
      this.#starved.push({ invariant: "I11", text, atMs: world.nowMs });
    }
  }

  /** I10: what is closed keeps nothing. */
  async #close(): Promise<void> {
    this.#over.abort();
    await closeAll(this.#sim);
  }
}
