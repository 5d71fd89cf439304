/**
 * For `node-cron` 4, whose tasks keep time themselves and ask a coordinator whether this replica is
 * the one to run.
 *
 * Its keys are a task's name and an ISO time. Replicas must give the task the same name.
 *
 * Not promised: what only a schedule of our own can do, since `node-cron` asks once, at the time of
 * the fire by its own clock: missed fires are not made up for, a run whose process died is not
 * begun again. A replica whose clock is ahead waits for the time by the store's clock, if that is
 * less than ten seconds; beyond that it does not run.
 */
import { now } from "../core/deadline.js";
import { ArgumentTypeError } from "../core/errors.js";
import { checkName } from "../core/names.js";
import type { Runtime } from "../core/runtime.js";
import { parseDuration } from "../core/duration.js";
import { reasonOf } from "../core/mishaps.js";
import { restFor } from "../sql/rest.js";
import type { SqlStore } from "../sql/store.js";
import { HeldFire, type ScheduleDialect } from "./fire.js";
import { claimThisFire, sweepFires, type Claimer } from "./fires.js";

const MOST_AHEAD_MS = 10_000;
const SWEEP_EVERY_MS = 3_600_000;
/** How long fires that have ended are kept, for people: 7 days, as those of a schedule. */
const KEEP_MS = 7 * 86_400_000;

/** What `node-cron` takes as `runCoordinator`. */
export class CronCoordinator<K extends ScheduleDialect> {
  readonly #store: SqlStore<K>;
  readonly #runtime: Runtime;
  readonly #timeOf: (text: string) => number | undefined;
  readonly #runs = new Map<string, HeldFire<K>>();
  readonly #sweptAtMs = new Map<string, number>();

  constructor(store: SqlStore<K>, runtime: Runtime, timeOf: (text: string) => number | undefined) {
    this.#store = store;
    this.#runtime = runtime;
    this.#timeOf = timeOf;
  }

  /** Whether this replica is to run; the run is then kept under a lease until `onComplete`. */
  async shouldRun(key: string, ttlMs: number): Promise<boolean> {
    const { name, fireMs } = this.#parse(key);
    const leaseMs = parseDuration(ttlMs, "ttlMs", { minMs: 100, maxMs: 86_400_000 });
    const holder = this.#runtime.random.id();
    let sentAt = now(this.#runtime.clock);
    const claimer = claimerOf(name, holder, leaseMs, this.#runtime);
    const claim = (): ReturnType<typeof claimThisFire> => claimThisFire(claimer, fireMs);
    let claimed = await this.#store.run("claim a fire", claim);
    while (claimed !== null && "inMs" in claimed) {
      if (claimed.inMs > MOST_AHEAD_MS) return false;
      await restFor(this.#runtime, claimed.inMs).over;
      sentAt = now(this.#runtime.clock);
      claimed = await this.#store.run("claim a fire", claim);
    }
    if (claimed === null) return false;
    const fire = new HeldFire(this.#store, this.#runtime, claimed.fire, {
      name,
      holder,
      leaseMs,
      sentAt,
    });
    fire.keep();
    this.#runs.set(key, fire);
    return true;
  }

  /** The run has ended. */
  async onComplete(key: string): Promise<void> {
    const fire = this.#runs.get(key);
    if (fire === undefined) return;
    this.#runs.delete(key);
    try {
      await fire.settle();
    } finally {
      fire.end();
    }
    await this.#sweep(fire.name);
  }

  /** Closes what was opened here; runs that last are left to their leases. */
  async close(): Promise<void> {
    for (const fire of this.#runs.values()) fire.end();
    await this.#store.close();
  }

  /** After a run, which must not wait for it, nor fail with it. */
  async #sweep(name: string): Promise<void> {
    const atMs = this.#runtime.clock.monotonicMs();
    if (atMs - (this.#sweptAtMs.get(name) ?? -Infinity) < SWEEP_EVERY_MS) return;
    this.#sweptAtMs.set(name, atMs);
    try {
      await this.#store.run("forget old fires", () => sweepFires(name, KEEP_MS));
    } catch (error) {
      const about = { name, backend: this.#store.dialect };
      this.#runtime.events.publish({ type: "warning", ...about, message: reasonOf(error) });
    }
  }

  #parse(key: unknown): { name: string; fireMs: number } {
    const must = "a task's name and an ISO time with a colon between";
    const match = typeof key === "string" ? /^(.+):(\d{4}-.+Z)$/s.exec(key) : null;
    const fireMs = match === null ? undefined : this.#timeOf(match[2]!);
    if (match === null || fireMs === undefined) throw new ArgumentTypeError("key", key, must);
    return { name: checkName(match[1], "key"), fireMs };
  }
}

function claimerOf(name: string, holder: string, leaseMs: number, runtime: Runtime): Claimer {
  const { host, pid } = runtime.holderInfo;
  return {
    name,
    holder,
    leaseMs,
    worker: `${host ?? "?"}:${pid ?? "?"}`,
    overlap: "allow",
    crashed: "leave",
    maxTries: 1,
    due: () => [],
    next: () => null,
  };
}
