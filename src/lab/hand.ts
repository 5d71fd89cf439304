/**
 * A holder that a scenario moves by hand, one step after the other, where chance would seldom bring
 * two steps so close together. What it does and what it is told is noted as a worker's is.
 */
import { TenureError } from "../core/errors.js";
import type { Lease } from "../core/lease.js";
import { toToken, type FencingToken, type TokenBearer } from "../core/token.js";
import type { Access, Resource } from "./resource.js";
import type { Client, Simulation } from "./simulation.js";
import { Belief, write } from "./worker.js";

/** What it asks for. */
export interface HandOptions {
  /** Default `job`. */
  readonly key?: string;
  /** Milliseconds. Default 10,000. */
  readonly ttlMs?: number;
  /** Milliseconds. Default 60,000. */
  readonly waitMs?: number;
}

/** One lease in the hand of a scenario, and the resources that were opened with it. */
export class Hand {
  readonly lease: Lease<FencingToken | undefined>;
  readonly client: Client;
  readonly #sim: Simulation;
  readonly #belief: Belief;
  readonly #open = new Map<string, Access>();
  readonly #read = new Map<string, number>();

  private constructor(sim: Simulation, client: Client, lease: Lease<FencingToken | undefined>) {
    this.#sim = sim;
    this.client = client;
    this.lease = lease;
    this.#belief = new Belief(client.process, lease);
    this.#belief.look();
  }

  /** Waits for the lease. @throws What `acquire` throws. */
  static async take(sim: Simulation, client: Client, options: HandOptions = {}): Promise<Hand> {
    const { key = "job", ttlMs = 10_000, waitMs = 60_000 } = options;
    const { signal } = client.heard;
    const about = { key, client: client.process.name };
    sim.world.history.add({ kind: "wait", ...about });
    try {
      const lease = await client.lock.acquire(key, { ttl: ttlMs, wait: waitMs, signal });
      return new Hand(sim, client, lease);
    } catch (error) {
      sim.world.history.add({ kind: "gave-up", ...about });
      throw error;
    }
  }

  /** The token; that of a store without any is 1. */
  get token(): FencingToken {
    return this.lease.token ?? toToken(1n);
  }

  /** What travels to a resource: the token without the lease's signal, so the mark decides. */
  get bearer(): TokenBearer {
    const { name, holder, storeId } = this.lease;
    return { name, holder, storeId, token: this.token };
  }

  /** Looks at the clock, and notes what the holder then believes. */
  look(): string {
    this.#belief.look();
    return this.lease.state;
  }

  /** Opens a resource; an armed one is armed by it. */
  async open(name = "account", resource: Resource = this.#sim.resource): Promise<void> {
    this.#open.set(name, await resource.open(this.client.process, this.bearer, name));
  }

  /** Opens several, all before the first is touched. */
  async openAll(names: readonly string[], resource: Resource = this.#sim.resource): Promise<void> {
    const all = await resource.openAll(this.client.process, this.bearer, names);
    for (const [i, name] of names.entries()) this.#open.set(name, all[i]!);
  }

  /** Reads, and remembers the value as what the next write is made from. */
  async read(name = "account"): Promise<number> {
    const value = await this.#open.get(name)!.read();
    this.#read.set(name, value);
    return value;
  }

  /** Writes what it made of what it read. @throws What the resource refuses it with. */
  async write(name = "account"): Promise<void> {
    const access = this.#open.get(name)!;
    await write(this.client.process, access, name, this.lease, this.#read.get(name) ?? 0);
  }

  async release(): Promise<"released" | "not-held"> {
    this.#belief.end(this.lease.state === "lost" ? "lost" : "released");
    return this.lease.release();
  }
}

/** What a step was refused with, or undefined where it went through. Other faults are thrown. */
export async function refusalOf(step: Promise<unknown>): Promise<TenureError | undefined> {
  try {
    await step;
    return undefined;
  } catch (error) {
    if (error instanceof TenureError) return error;
    throw error;
  }
}

/** Tells a story to its end, and lets what it left in the network arrive. */
export async function tell(
  sim: Simulation,
  story: () => Promise<void>,
  limitMs = 600_000,
): Promise<void> {
  await sim.world.until(story(), limitMs);
  await sim.world.run(sim.world.nowMs + 30_000);
}
