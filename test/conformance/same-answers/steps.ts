/** Random steps through the contract of a backend: the same for the same seed. */
import { Draws } from "../../../src/lab/draws.js";

/**
 * What a store is asked. `lapse` sees a lease to its end by itself: the time of the present one is
 * cut short, or a new one is taken for a short time, and then nobody renews it. Leases have so long
 * a TTL otherwise that none ends while the steps last, on however slow a machine.
 */
export type Op =
  | "acquire"
  | "renew"
  | "renew several"
  | "release"
  | "release several"
  | "clean up"
  | "break"
  | "inspect"
  | "list"
  | "lapse"
  // Stores with sessions.
  | "close session"
  | "keep session"
  | "change session"
  | "acquire too late"
  // Stores that tell of releases.
  | "watch"
  // Stores that compare no clocks.
  | "take over"
  // Stores with a line of waiters.
  | "wait"
  | "leave"
  | "touch"
  | "confirm"
  | "miss the turn"
  | "fall silent"
  // What is done to the store itself, by the name that the comparison gives it.
  | "fault";

/** One thing that both stores are asked, or that is done to both. */
export interface Step {
  readonly op: Op;
  readonly name: string;
  readonly holder: string;
  /** Which of the clients asks, where it is no holder's own. */
  readonly client: number;
  /** Which of the grants so far it is about, from 0 to 1; mostly the last ones. */
  readonly nth: number;
  /** Of an `op` that is a fault: which, and of what. */
  readonly fault?: string;
  readonly member: number;
  readonly ttlMs: number;
}

/** How often each is drawn, in shares. */
export type Menu = Partial<Readonly<Record<Op, number>>>;

/** How many steps, of which, about how many names. */
export interface Plan {
  readonly count: number;
  readonly menu: Menu;
  readonly names?: readonly string[];
  /** Faults that `fault` stands for. */
  readonly faults?: readonly string[];
  /** What happens whatever is drawn, by number of the step. */
  readonly fixed?: Readonly<Record<number, Partial<Step>>>;
}

/** Far beyond what the steps take. */
const LONG_TTLS_MS = [600_000, 900_000];
const NAMES = ["a", "b", "c"];

/** Holders; each belongs to a client, so that more than one process is in it. */
const HOLDERS = ["h1", "h2", "h3", "h4", "h5"];

/** The steps of a seed. */
export function drawSteps(seed: number, plan: Plan): readonly Step[] {
  const { count, menu, names = NAMES, faults = [], fixed = {} } = plan;
  const draws = new Draws(seed);
  const ops = Object.entries(menu).flatMap(([op, share]) =>
    Array.from({ length: share }, () => op as Op),
  );
  return Array.from({ length: count }, (_, i) => {
    const op = draws.pick(ops);
    const step: Step = {
      op,
      name: draws.pick(names),
      holder: draws.pick(HOLDERS),
      client: Math.floor(draws.uniform() * 1_000),
      nth: 1 - draws.uniform() ** 4,
      member: Math.floor(draws.uniform() * 1_000),
      ttlMs: draws.pick(LONG_TTLS_MS),
    };
    const fault = op === "fault" ? { fault: draws.pick(faults) } : {};
    return { ...step, ...fault, ...fixed[i] };
  });
}

/** Longest that the runs of one comparison may take, milliseconds: a slow machine is no fault. */
export const LIMIT_MS: number = 180_000 * times();

/** How many runs: as many seeds as a comparison asks for, or `TENURE_MODEL_RUNS` times as many. */
export function seedsOf(count: number): readonly number[] {
  return Array.from({ length: Math.floor(count * times()) }, (_, i) => i + 1);
}

function times(): number {
  const asked = process.env["TENURE_MODEL_RUNS"] ?? "1";
  const many = Number(asked);
  if (many >= 1) return many;
  throw new RangeError(`TENURE_MODEL_RUNS must be 1 or more, got ${asked}`);
}
