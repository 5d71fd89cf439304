/**
 * The relay: publishes what was committed, one process at a time.
 *
 * One relay, by a claim in the store with a lease and a token, rather than one per key: publishing
 * waits for others, and a lock of a row would be held that long in an open transaction. Several
 * processes may call `relay`; the others wait until the one has ended or died. Within it keys go in
 * parallel.
 *
 * A batch is read and published, key by key. Once a publisher is free, what was published is
 * recorded in one transaction, and the next batch is read, without the keys that are still under
 * way: one that takes long holds up nobody else. A relay that dies in between has published what is
 * not recorded: its successor publishes it again, under the same id. So does one that was frozen
 * and finds its claim taken when it wakes: what it records is refused.
 */
import { isNoAnswer } from "../core/call.js";
import { now } from "../core/deadline.js";
import { SupersededError, UnavailableError } from "../core/errors.js";
import type { Mishaps } from "../core/mishaps.js";
import type { Runtime } from "../core/runtime.js";
import { jittered, restFor, type Rest } from "../sql/rest.js";
import { RowLease } from "../sql/row-lease.js";
import type { Run } from "../sql/script.js";
import {
  claimRelay,
  extendRelay,
  leaveRelay,
  readWaiting,
  recordOutcome,
  RELAY,
  sweepMessages,
  type Relaying,
} from "./messages.js";
import type { FailedPublish, RelayTerms } from "./options.js";
import { Publishing, type Publish } from "./publishing.js";

const SWEEP_EVERY_MS = 10_000;
/** Most rows that one sweep deletes, unless more are published at a time. */
const SWEEP_ROWS = 1_000;

/** What the relay is made of. */
export interface RelayParts {
  readonly run: Run<"promised">;
  readonly storeId: string;
  readonly runtime: Runtime;
  readonly publish: Publish;
  readonly terms: RelayTerms;
  readonly mishaps: Mishaps<FailedPublish>;
  /** Ends the relay. */
  readonly stop: AbortSignal;
}

/** Relays whenever no other does, until it is stopped. */
export async function relayUntilStopped(parts: RelayParts): Promise<void> {
  const { runtime, terms, stop } = parts;
  while (!stop.aborted) {
    let inMs = terms.pollMs;
    try {
      const claimed = await claim(parts);
      if ("lease" in claimed) await new Relay(parts, claimed.lease).turn();
      else inMs = Math.min(inMs, Math.max(10, claimed.inMs));
    } catch (error) {
      tolerate(error, parts);
    }
    if (!stop.aborted) await restFor(runtime, jittered(runtime, inMs), stop).over;
  }
}

/** What may pass is told; what cannot is thrown. */
function tolerate(error: unknown, { mishaps }: RelayParts): void {
  const isHopeless = error instanceof UnavailableError && !error.retryable;
  const passes = error instanceof SupersededError || (isNoAnswer(error) && !isHopeless);
  if (!passes) throw error;
  mishaps.tell(error);
}

async function claim({
  run,
  runtime,
  storeId,
  terms: { leaseMs },
}: RelayParts): Promise<{ readonly lease: RowLease } | { readonly inMs: number }> {
  const holder = runtime.random.id();
  const sentAt = now(runtime.clock);
  const claimed = await run("claim the relay", () => claimRelay(holder, leaseMs));
  if ("inMs" in claimed) return claimed;
  const { token } = claimed;
  const extend = (): Promise<boolean> =>
    run("extend the relay", () => extendRelay({ holder, token }, leaseMs));
  const grant = { name: RELAY, holder, token, storeId, leaseMs, sentAt };
  return { lease: new RowLease(grant, { kind: "outbox", runtime, extend }) };
}

class Relay {
  readonly #parts: RelayParts;
  readonly #lease: RowLease;
  readonly #relaying: Relaying;
  readonly #publishing: Publishing;
  #resting: Rest | undefined;
  #sweptAtMs = -Infinity;

  constructor(parts: RelayParts, lease: RowLease) {
    this.#parts = parts;
    this.#lease = lease;
    this.#relaying = { holder: lease.holder, token: lease.token };
    const { runtime, publish, terms, mishaps, stop } = parts;
    this.#publishing = new Publishing({
      ...{ runtime, publish, terms, mishaps, lease, stop },
      onFree: () => this.#resting?.end(),
    });
  }

  /** Relays until it is stopped, or the claim is lost. */
  async turn(): Promise<void> {
    const { run } = this.#parts;
    const publishing = this.#publishing;
    this.#lease.keep();
    try {
      while (!publishing.isOver) await this.#round();
      await publishing.ended();
      await this.#record();
    } finally {
      publishing.end();
      await publishing.ended();
      this.#lease.end();
    }
    await run("end the relay", () => leaveRelay(this.#relaying));
  }

  async #round(): Promise<void> {
    const { terms, run } = this.#parts;
    const publishing = this.#publishing;
    const exits = publishing.exits;
    try {
      await this.#record();
      // Where all fail, it is not the messages: the broker is asked less often.
      if (publishing.onlyFailed) await this.#rest();
      if (publishing.isOver) return;
      const messages = await run("read messages", () =>
        readWaiting(terms.batch, publishing.busyKeys),
      );
      publishing.begin(messages);
      // What cannot be forgotten only takes up room: no relay is to end over it.
      await this.#sweep().catch((error: unknown) => this.#parts.mishaps.tell(error));
    } catch (error) {
      // What is published and not recorded is kept, as long as the claim is.
      if (error instanceof SupersededError) throw error;
      tolerate(error, this.#parts);
      return await this.#rest();
    }
    if (publishing.exits > exits) return;
    do {
      await this.#rest(true);
    } while (!publishing.isOver && !publishing.isFree);
  }

  /** Until it is time to look again; or, where that is said, until a publisher is free. */
  async #rest(endsEarly = false): Promise<void> {
    const { runtime, terms, stop } = this.#parts;
    const resting = restFor(runtime, jittered(runtime, terms.pollMs), stop);
    if (endsEarly) this.#resting = resting;
    await resting.over;
    this.#resting = undefined;
  }

  async #record(): Promise<void> {
    const { run } = this.#parts;
    await this.#publishing.record((outcome) =>
      run("record messages", () => recordOutcome(this.#relaying, outcome)),
    );
  }

  async #sweep(): Promise<void> {
    const { run, runtime, terms } = this.#parts;
    const atMs = runtime.clock.monotonicMs();
    if (atMs - this.#sweptAtMs < SWEEP_EVERY_MS) return;
    this.#sweptAtMs = atMs;
    // More than can have been published since the last round.
    const most = Math.max(SWEEP_ROWS, 2 * terms.batch);
    const sweep = () => sweepMessages(terms.keepPublishedMs, most);
    const swept = await run("forget published messages", sweep);
    if (swept === most) this.#sweptAtMs = -Infinity;
  }
}
