/**
 * Makes a failing run small: leaves out faults for as long as the same invariant breaks, first many
 * at once and then single ones (delta debugging). What is left can be read.
 *
 * Without a fault all that follows it meets other moments, and what broke by a hair may hold. So
 * faults are left out several times, with other delays; and since what broke it has mostly happened
 * a short time before, single faults and short spans before the violation are tried first.
 */
import { chaos, type ChaosOptions, type ChaosResult } from "./chaos.js";
import type { InvariantId, Violation } from "./checkers/violation.js";
import type { FenceMode } from "./resource.js";
import { STORE_MODELS, storeOf, type StoreName } from "./store-models.js";
import { VARIANTS } from "./variants/index.js";

/** How often a fault is left out before it counts as needed, once few are left. */
const SALTS = 6;
const FEW = 24;
/** Spans of faults before the violation that are tried alone: how long, and how many of them. */
const SPANS: readonly (readonly [length: number, count: number])[] = [[1, 8], [2, 6], [4, 4]];

/** Which run to make small. */
export interface ShrinkOptions {
  readonly seed: number;
  /** Default `armed`. */
  readonly fence?: FenceMode;
  /** Default: the model that a soak runs this seed on. */
  readonly store?: StoreName;
  /** A known-bad lock, by name; its own settings count then. */
  readonly variant?: string;
  /** Further settings of the run. */
  readonly run?: Partial<ChaosOptions>;
}

/** The small run. */
export interface Shrunk {
  readonly seed: number;
  /** The faults that are left, in their order. */
  readonly faults: readonly string[];
  /** How many were left out. */
  readonly removed: number;
  /** Faults that are left, with a lossy network as one of them. */
  readonly events: number;
  readonly isLossy: boolean;
  /** Which delays the faults meet. */
  readonly salt: number;
  readonly violation: Violation;
  /** Length of the run, milliseconds. */
  readonly forMs: number;
  /** What makes the run the small one, beside its seed. */
  readonly settings: Reduction;
  /** Runs that it took. */
  readonly runs: number;
  readonly result: ChaosResult;
}

/** A little more than the moment of the violation, milliseconds. */
const AFTER_MS = 1_000;

/** The run made small; undefined where it breaks nothing. */
export async function shrink(options: ShrinkOptions): Promise<Shrunk | undefined> {
  const settings = settingsOf(options);
  const first = await chaos(settings);
  const { violations } = first;
  // What an unfenced resource loses is no surprise, where something else broke.
  const violation = violations.find(({ invariant }) => invariant !== "I5") ?? violations[0];
  if (violation === undefined) return undefined;
  return new Shrinking(settings, violation.invariant, first).run();
}

function settingsOf({ seed, fence = "armed", store, variant, run }: ShrinkOptions): ChaosOptions {
  const known = VARIANTS.find(({ name }) => name === variant);
  if (variant !== undefined && known === undefined) {
    throw new RangeError(`there is no variant ${JSON.stringify(variant)}`);
  }
  if (known !== undefined) return { ...known.flawed, ...run, seed };
  return { fence, store: STORE_MODELS[store ?? storeOf(seed)], ...run, seed };
}

/** What is tried: the same run with less done to it. */
export interface Reduction {
  readonly without: ReadonlySet<number>;
  readonly forMs?: number;
  readonly heals?: boolean;
  readonly isLossy: boolean;
  readonly salt: number;
}

class Shrinking {
  readonly #settings: ChaosOptions;
  readonly #breaks: InvariantId;
  #best: ChaosResult;
  #less: Reduction;
  #runs = 1;

  constructor(settings: ChaosOptions, breaks: InvariantId, first: ChaosResult) {
    this.#settings = settings;
    this.#breaks = breaks;
    this.#best = first;
    this.#less = { without: settings.without ?? new Set(), isLossy: first.isLossy, salt: 0 };
  }

  async run(): Promise<Shrunk> {
    await this.#shorten();
    if (this.#less.isLossy) await this.#tryOften({ ...this.#less, isLossy: false });
    await this.#guess();
    await this.#leaveOut();
    await this.#shorten();
    const { plan, seed, simulatedMs } = this.#best;
    const faults = plan.filter((_, nth) => !this.#less.without.has(nth));
    const { isLossy, salt, forMs = simulatedMs } = this.#less;
    return {
      seed,
      faults,
      removed: plan.length - faults.length,
      events: faults.length + (isLossy ? 1 : 0),
      isLossy,
      salt,
      violation: this.#violationOf(this.#best)!,
      forMs,
      settings: this.#less,
      runs: this.#runs,
      result: this.#best,
    };
  }

  /** Ends the run soon after the violation. */
  async #shorten(): Promise<void> {
    const { atMs } = this.#violationOf(this.#best)!;
    await this.#try({ ...this.#less, forMs: atMs + AFTER_MS, heals: false });
  }

  /** Whether a few of the last faults are enough. */
  async #guess(): Promise<void> {
    const all = [...this.#best.plan.keys()].filter((nth) => !this.#less.without.has(nth));
    for (const [length, count] of SPANS) {
      if (length >= all.length) return;
      for (let back = 0; back < count && back + length <= all.length; back++) {
        const from = all.length - back - length;
        const without = new Set([...all.slice(0, from), ...all.slice(from + length)]);
        if (await this.#tryOften({ ...this.#less, without })) return;
      }
    }
  }

  /** Half of the faults, then a quarter of them, and so on down to each of them alone. */
  async #leaveOut(): Promise<void> {
    let parts = 2;
    for (;;) {
      const kept = [...this.#best.plan.keys()].filter((nth) => !this.#less.without.has(nth));
      if (kept.length === 0) return;
      const size = Math.max(1, Math.ceil(kept.length / parts));
      let hasShrunk = false;
      for (let from = 0; from < kept.length; from += size) {
        const without = new Set([...this.#less.without, ...kept.slice(from, from + size)]);
        const less = { ...this.#less, without };
        const isLess = kept.length > FEW ? this.#try(less) : this.#tryOften(less);
        if (await isLess) hasShrunk = true;
      }
      if (hasShrunk) parts = Math.max(2, parts - 1);
      else if (size === 1) return;
      else parts *= 2;
    }
  }

  async #tryOften(less: Reduction): Promise<boolean> {
    for (let nth = 0; nth < SALTS; nth++) {
      if (await this.#try({ ...less, salt: less.salt + nth })) return true;
    }
    return false;
  }

  /** Whether the same invariant breaks with less; if so, less it is from here on. */
  async #try(less: Reduction): Promise<boolean> {
    this.#runs += 1;
    const result = await chaos({ ...this.#settings, ...less });
    if (this.#violationOf(result) === undefined) return false;
    this.#best = result;
    this.#less = less;
    return true;
  }

  #violationOf({ violations }: ChaosResult): Violation | undefined {
    return violations.find(({ invariant }) => invariant === this.#breaks);
  }
}
