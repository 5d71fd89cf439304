/** A fire that this process runs. */
import type { Moment } from "../core/deadline.js";
import type { Runtime } from "../core/runtime.js";
import type { TokenBearer } from "../core/token.js";
import { RowLease } from "../sql/row-lease.js";
import type { Answered } from "../sql/script.js";
import type { CallersTx, SqlStore } from "../sql/store.js";
import { extendFire, finishFire, isFinished, type ClaimedFire, type RunningFire } from "./fires.js";

/** Where schedules live. */
export type ScheduleDialect = "sqlite" | "postgres";

/**
 * One fire of a schedule, and the lease of its run. It is what a fence takes for a lease.
 *
 * Not promised: that a run whose lease is over has stopped; its `complete` is refused, and with it
 * what stands in the same transaction.
 */
export interface Fire<K extends ScheduleDialect = ScheduleDialect> extends TokenBearer {
  /** The time of the cron expression, milliseconds since 1970. */
  readonly fireMs: number;
  /** How often this fire was begun, this time included: 2 after a process that died. */
  readonly tries: number;
  /** How long the lease lasts without being extended, milliseconds. */
  readonly leaseMs: number;
  /** Aborted when the lease is lost or its deadline is near. */
  readonly signal: AbortSignal;
  /** Milliseconds to the deadline of the lease, 0 once past. */
  remaining(): number;
  /**
   * Ends the run in a transaction, together with what stands in it: both are there or neither.
   *
   * @throws SupersededError when the lease is over: roll back then.
   */
  complete(tx: CallersTx<K>): Answered<K, void>;
}

/** How a fire is held. */
export interface Holding {
  readonly name: string;
  readonly holder: string;
  readonly leaseMs: number;
  readonly sentAt: Moment;
}

/** The fire of a schedule. */
export class HeldFire<K extends ScheduleDialect> extends RowLease implements Fire<K> {
  readonly fireMs: number;
  readonly tries: number;
  readonly #store: SqlStore<K>;
  readonly #running: RunningFire;
  #isCompleting = false;
  /** Settles, and never rejects, when what ends the run has been answered. */
  #ending: Promise<unknown> | undefined;

  constructor(store: SqlStore<K>, runtime: Runtime, claimed: ClaimedFire, holding: Holding) {
    const { name, holder, leaseMs, sentAt } = holding;
    const { fireMs, token, tries } = claimed;
    const running: RunningFire = { name, fireMs, holder, token };
    super(
      { name, token, holder, storeId: store.storeId, leaseMs, sentAt },
      {
        kind: "schedule",
        runtime,
        extend: async () => {
          const isHeld = await store.run("extend a run", () => extendFire(running, leaseMs));
          // It may have met this holder's own end of the run, whose answer is to come.
          if (!isHeld) await this.#ending;
          return isHeld;
        },
      },
    );
    this.fireMs = fireMs;
    this.tries = tries;
    this.#store = store;
    this.#running = running;
  }

  protected override get kind(): string {
    return "Fire";
  }

  protected override facts(): object {
    const { name, fireMs, tries } = this;
    return { name, fireMs, tries, ...super.facts() };
  }

  complete(tx: CallersTx<K>): Answered<K, void> {
    const run = this.#store.within(tx);
    // From here on the row is locked until the transaction ends, and cannot be extended.
    this.#isCompleting = true;
    this.rest();
    return run<void>("complete a run", () => finishFire(this.#running, "done"));
  }

  /** After the work has returned. @throws Error when its completion was not committed. */
  async settle(): Promise<void> {
    const running = this.#running;
    const mustBeDone = this.#isCompleting;
    const finishing = this.#store.run("complete a run", function* () {
      if (yield* isFinished(running)) return;
      if (mustBeDone) throw new Error("the transaction that completes the run was not committed");
      yield* finishFire(running, "done");
    });
    await this.#end(finishing);
  }

  async #end(answer: Promise<void>): Promise<void> {
    const ended = answer.then(() => this.end());
    this.#ending = ended.catch(() => undefined);
    await ended;
  }

  /** After the work has failed. */
  async fail(reason: string): Promise<void> {
    const running = this.#running;
    const failing = this.#store.run("end a run", function* () {
      if (!(yield* isFinished(running))) yield* finishFire(running, "failed", reason);
    });
    await this.#end(failing);
  }
}
