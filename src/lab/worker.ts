/**
 * What a client of the lab does all day: waits for a lease, opens the resource with it, reads,
 * thinks, writes what it made of what it read, and gives the lease back. The real core, fed with a
 * simulated runtime.
 */
import { LeaseLostError, TenureError } from "../core/errors.js";
import type { Lease } from "../core/lease.js";
import type { Tenure } from "../core/tenure.js";
import { toToken, type FencingToken, type TokenBearer } from "../core/token.js";
import { mayHaveLanded, type Resource } from "./resource.js";
import type { SimulatedProcess } from "./process.js";

/** How a worker works. All milliseconds. */
export interface WorkerOptions {
  readonly key: string;
  readonly resource: string;
  readonly ttlMs: number;
  /** Time before the deadline at which the lease's signal aborts. Default: that of the lease. */
  readonly graceMs?: number;
  /** Longest wait for the lease. */
  readonly waitMs: number;
  /** Between reading and writing. */
  readonly thinkMs: readonly [number, number];
  /** Between two turns. */
  readonly restMs: readonly [number, number];
  /** Writes within one turn. Default 1. */
  readonly writes?: number;
  /** Whether it looks at the clock before it writes. Default true. */
  readonly checks?: boolean;
  /**
   * Whether the fence is told of the lease's signal, too. Default true; without it the token
   * travels alone, as it does to another process, and the mark alone decides.
   */
  readonly heeds?: boolean;
  /** Turns to take; without it, for ever. */
  readonly turns?: number;
  /** Asked before each turn: whether to take none any more. */
  readonly isOver?: () => boolean;
  /** Handed to each wait for the lease. */
  readonly signal?: AbortSignal;
}

/** What a worker takes its leases from: a tenure, or a lock that is wrong on purpose. */
export type Lock = Pick<Tenure<FencingToken | undefined>, "acquire">;

/** Works until its turns are over, or for ever. Errors of Tenure end a turn; others are faults. */
export async function work(
  process: SimulatedProcess,
  tenure: Lock,
  resource: Resource,
  options: WorkerOptions,
): Promise<void> {
  const { random } = process.runtime;
  const within = ([from, to]: readonly [number, number]): number =>
    from + random.uniform() * (to - from);
  for (let turn = 0; turn < (options.turns ?? Infinity); turn++) {
    await process.sleep(within(options.restMs));
    if (options.isOver?.() === true) return;
    try {
      await takeTurn(process, tenure, resource, options, () => within(options.thinkMs));
    } catch (error) {
      if (!(error instanceof TenureError)) {
        process.world.fail(error);
        throw error;
      }
    }
  }
}

async function takeTurn(
  process: SimulatedProcess,
  tenure: Lock,
  resource: Resource,
  options: WorkerOptions,
  thinkMs: () => number,
): Promise<void> {
  const { history } = process.world;
  const { key, ttlMs, waitMs, graceMs } = options;
  const { signal } = options;
  const more = {
    ...(graceMs === undefined ? {} : { grace: graceMs }),
    ...(signal === undefined ? {} : { signal }),
  };
  let lease: Lease<FencingToken | undefined>;
  history.add({ kind: "wait", key, client: process.name });
  try {
    lease = await tenure.acquire(key, { ttl: ttlMs, wait: waitMs, ...more });
  } catch (error) {
    history.add({ kind: "gave-up", key, client: process.name });
    throw error;
  }
  const belief = new Belief(process, lease);
  belief.look();
  try {
    await process.point("granted");
    const access = await resource.open(process, bearerOf(lease, options), options.resource);
    for (let nth = 0; nth < (options.writes ?? 1); nth++) {
      belief.look();
      const base = await access.read();
      await process.point("read");
      await process.sleep(thinkMs());
      if (options.checks !== false) lease.assertHeld();
      belief.look();
      await process.point("checked");
      await write(process, access, options.resource, lease, base);
    }
  } finally {
    await process.point("done");
    const isLost = lease.state === "lost";
    belief.end(isLost ? "lost" : "released");
    try {
      await lease.release();
    } catch (error) {
      if (!(error instanceof TenureError)) process.world.fail(error);
    }
  }
}

/** Writes, and notes what the client was told. */
export async function write(
  process: SimulatedProcess,
  access: { write(base: number): Promise<number> },
  resource: string,
  lease: Lease<FencingToken | undefined>,
  base: number,
): Promise<void> {
  const { history } = process.world;
  const about = { resource, client: process.name, token: String(lease.token ?? 0n), base };
  try {
    const value = await access.write(base);
    history.add({ kind: "acked", ...about, value, outcome: "ok" });
  } catch (error) {
    const outcome = mayHaveLanded(error) ? "unknown" : "refused";
    history.add({ kind: "acked", ...about, value: 0, outcome });
    throw error;
  }
}

function bearerOf(
  lease: Lease<FencingToken | undefined>,
  { heeds = true }: WorkerOptions,
): TokenBearer {
  if (lease.token !== undefined && heeds) return lease as TokenBearer;
  const { name, holder, storeId } = lease;
  // A store without tokens gives none: the register is then told one that nobody compares.
  return { name, holder, storeId, token: lease.token ?? toToken(1n) };
}

/** What a client believes of its lease, noted whenever it looks. */
export class Belief {
  readonly #process: SimulatedProcess;
  readonly #lease: Lease<FencingToken | undefined>;
  #isOver = false;

  constructor(process: SimulatedProcess, lease: Lease<FencingToken | undefined>) {
    this.#process = process;
    this.#lease = lease;
    lease.signal.addEventListener("abort", () => {
      const reason: unknown = lease.signal.reason;
      this.end(reason instanceof LeaseLostError ? reason.reason : "aborted");
    });
  }

  look(): void {
    if (this.#isOver) return;
    const state = this.#lease.state;
    if (state === "lost" || state === "released") return this.end(state);
    const leftMs = Math.floor(this.#lease.remaining());
    const kind = state === "unknown" ? "doubts" : "believes";
    this.#process.world.history.add({ kind, ...this.#about(), leftMs });
  }

  end(why: string): void {
    if (this.#isOver) return;
    this.#isOver = true;
    this.#process.world.history.add({ kind: "stops", ...this.#about(), why });
  }

  #about(): { readonly key: string; readonly client: string; readonly token: string } {
    const { name, token } = this.#lease;
    return { key: name, client: this.#process.name, token: String(token ?? 0n) };
  }
}
