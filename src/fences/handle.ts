/**
 * The client's part of the fence protocol: the life of one armed handle.
 *
 * A handle is **sure** when it knows its arming to be accepted and its last write's outcome. A
 * write with an unknown outcome makes it **unsure**. An unsure handle arms again, under the next
 * number, before it does anything else: once that is accepted, the old write cannot land any more.
 *
 * Arming again must not end a *newer* handle of the same holder, whose reads may already rest on
 * what this one wrote: (1) this handle reads 5, its write of 6 is lost; (2) a second task arms,
 * reads 5, writes 7; (3) this handle arms over it and writes 6 once more: 7 is gone. So it proposes
 * its own number + 1, which is refused when anyone armed in between.
 *
 * If the answer to that arming is lost too, the mark tells: a re-arming starts its write numbers at
 * a random place, beyond all that are counted from 0, and is recognised by it: nobody else's arming
 * of that number has been there. A refusal shows the mark as well, and may be of a copy: (1) the
 * re-arming is late, or its reply is lost and the client library sends it again; (2) it is applied;
 * (3) the one sent after it is refused, by its own mark. That is no other's arming, either.
 *
 * So with a write: its number is its handle's alone. One that is refused since the mark has just
 * this number was applied before, by a copy, and what its work returned is lost.
 */
import {
  ArgumentTypeError,
  OutcomeUnknownError,
  StaleTokenError,
  TenureError,
  UnavailableError,
} from "../core/errors.js";
import { Told } from "../core/told.js";
import { throwIfAborted, type Armer } from "./bearer.js";
import type {
  ArmedHandle,
  FenceRuntime,
  FenceStore,
  OnStale,
  Ran,
  Work,
  WriteOutcome,
} from "./contract.js";
import { isSameScope, type FenceRequest, type MarkRecord, type Scope } from "./decide.js";
import { refuse } from "./refusal.js";

/** What the handles of one fence share. */
export interface Shared<Tx, Read> {
  readonly store: FenceStore<Tx, Read>;
  readonly runtime: FenceRuntime;
  readonly onStale: OnStale;
}

interface Rearming {
  readonly arm: number;
  readonly n: number;
  /** Whether it was sent before: it may have been applied. */
  sent: boolean;
}

/** Re-armings start from here to twice as far: no handle writes so often. */
const RANDOM_STARTS = 2 ** 31;

export class Handle<Tx, Read, S extends OnStale>
  extends Told
  implements ArmedHandle<Tx, Read, S>
{
  readonly resource: string;
  readonly #shared: Shared<Tx, Read>;
  readonly #armer: Armer;
  #arm: number;
  #n = 0;
  #unsure: Rearming | undefined;
  #tail: Promise<unknown> = Promise.resolve();

  constructor(shared: Shared<Tx, Read>, armer: Armer, resource: string, arm: number) {
    super();
    this.#shared = shared;
    this.#armer = armer;
    this.resource = resource;
    this.#arm = arm;
  }

  get scope(): Scope {
    return this.#armer.scope;
  }

  get token(): bigint {
    return this.#armer.token;
  }

  get holder(): string {
    return this.#armer.holder;
  }

  get arm(): number {
    return this.#arm;
  }

  protected get kind(): string {
    return "ArmedHandle";
  }

  protected facts(): object {
    const { resource, scope, token, holder, arm } = this;
    return { resource, scope, token, holder, arm };
  }

  read<R>(work: (tx: Read) => R): Promise<Awaited<R>> {
    checkWork(work);
    return this.#inTurn(async (): Promise<Awaited<R>> => {
      await this.#makeSure();
      const request = this.#request("read", this.#n);
      const ran = await this.#run(request, work, (watched) =>
        this.#shared.store.read(request, watched, this.#armer),
      );
      if (ran.accepted) return ran.result;
      throw refuse(this.#shared, request, ran);
    });
  }

  write<R>(work: (tx: Tx) => R): Promise<WriteOutcome<Awaited<R>, S>> {
    checkWork(work);
    return this.#inTurn(async () => {
      await this.#makeSure();
      this.#n += 1;
      const request = this.#request("write", this.#n);
      const ran = await this.#run(request, work, (watched) =>
        this.#shared.store.write(request, watched, this.#armer),
      );
      return this.#outcome(request, ran) as WriteOutcome<Awaited<R>, S>;
    });
  }

  #outcome<R>(request: FenceRequest, ran: Ran<R>): WriteOutcome<R, OnStale> {
    const { onStale } = this.#shared;
    if (ran.accepted) {
      return onStale === "reject" ? ran.result : { applied: true, result: ran.result };
    }
    const error = refuse(this.#shared, request, ran);
    if (onStale !== "reject" && error instanceof StaleTokenError) {
      return { applied: false, stale: error };
    }
    throw error;
  }

  /**
   * One operation at a time, in the order of the calls; a failed one does not hold up the next.
   * Nobody here listens for its failure: one that the caller does not await, either, is to be
   * reported as such, not lost.
   */
  async #inTurn<R>(operation: () => Promise<R>): Promise<R> {
    const before = this.#tail;
    let done: (() => void) | undefined;
    this.#tail = new Promise<void>((resolve) => (done = resolve));
    try {
      await before;
      return await operation();
    } finally {
      done!();
    }
  }

  #request(op: FenceRequest["op"], n: number, arm: number = this.#arm): FenceRequest {
    const { scope, token, holder } = this.#armer;
    return { op, resource: this.resource, scope, token, holder, arm, n };
  }

  async #run<T, R>(
    request: FenceRequest,
    work: (tx: T) => R,
    submit: (watched: Work<T, Awaited<R>>) => Promise<Ran<Awaited<R>>>,
  ): Promise<Ran<Awaited<R>>> {
    const watch = watchWork(work, this.#shared.store.work === "sync");
    try {
      const ran = await submit(watch.run);
      if (ran.accepted || ran.why !== "repeated" || ran.record?.n !== request.n) return ran;
      throw new OutcomeUnknownError(
        `${request.op} of ${JSON.stringify(this.resource)}: it was applied, and its reply was lost`,
        { backend: this.#shared.store.kind, lock: this.scope.name },
      );
    } catch (error) {
      if (watch.threw(error) || this.#isDefinite(error)) throw error;
      const context = { cause: error, backend: this.#shared.store.kind, lock: this.scope.name };
      const message = `${request.op} of ${JSON.stringify(this.resource)}: ${show(error)}`;
      if (request.op === "read") {
        // Nothing of it is protected by the arming, which stays as it is.
        const isOpen = this.#shared.store.readsCanEnd === true;
        if (isOpen && error instanceof OutcomeUnknownError) throw error;
        throw new UnavailableError(message, context);
      }
      const place = 1 + this.#shared.runtime.random.uniform();
      const n = Math.floor(place * RANDOM_STARTS);
      this.#unsure = { arm: this.#arm + 1, n, sent: false };
      if (error instanceof OutcomeUnknownError) throw error;
      throw new OutcomeUnknownError(message, context);
    }
  }

  async #makeSure(): Promise<void> {
    throwIfAborted(this.#armer);
    const next = this.#unsure;
    if (next === undefined) return;
    if (!(next.sent && (await this.#isApplied(next)))) {
      const request = this.#request("arm", next.n, next.arm);
      next.sent = true;
      const verdict = await this.#beforeTheWork(this.#shared.store.arm(request, this.#armer));
      const isOwn = verdict.accepted || this.#isArmedBy(next, verdict.record);
      if (!isOwn) throw refuse(this.#shared, request, verdict);
      throwIfAborted(this.#armer);
    }
    this.#arm = next.arm;
    this.#n = next.n;
    this.#unsure = undefined;
  }

  async #isApplied(next: Rearming): Promise<boolean> {
    const load = this.#shared.store.load(this.resource, this.#armer);
    return this.#isArmedBy(next, await this.#beforeTheWork(load));
  }

  #isArmedBy({ arm, n }: Rearming, record: MarkRecord | null): boolean {
    return isOf(record, this.#armer) && record.arm === arm && record.n === n;
  }

  /** Whether an error of the store says for certain that nothing was applied. */
  #isDefinite(error: unknown): boolean {
    const { signal } = this.#armer;
    // The store did not begin, and threw the signal's own reason, which may be anything.
    if (signal?.aborted === true && error === signal.reason) return true;
    return error instanceof TenureError && error.family !== "unknown";
  }

  /** Whatever happened to the arming: the operation that was asked for did not happen. */
  async #beforeTheWork<R>(step: Promise<R>): Promise<R> {
    try {
      return await step;
    } catch (error) {
      if (this.#isDefinite(error)) throw error;
      throw new UnavailableError(
        `${JSON.stringify(this.resource)} could not be armed again after an unknown outcome`,
        { cause: error, backend: this.#shared.store.kind, lock: this.scope.name },
      );
    }
  }
}

/** Whether a mark was set by this very grant. */
export function isOf(record: MarkRecord | null, armer: Armer): record is MarkRecord {
  return (
    record !== null &&
    isSameScope(record.scope, armer.scope) &&
    record.token === armer.token &&
    record.holder === armer.holder
  );
}

/** @throws TypeError for anything but a function. */
export function checkWork(work: unknown): void {
  if (typeof work !== "function") throw new ArgumentTypeError("work", work, "a function");
}

/** Tells the work's own error from the store's, and refuses a promise where none is awaited. */
function watchWork<T, R>(
  work: (tx: T) => R,
  sync: boolean,
): { readonly run: Work<T, Awaited<R>>; readonly threw: (error: unknown) => boolean } {
  const thrown: unknown[] = [];
  const note = (error: unknown): never => {
    thrown.push(error);
    throw error;
  };
  const run = (tx: T): Awaited<R> | PromiseLike<Awaited<R>> => {
    let result: R;
    try {
      result = work(tx);
    } catch (error) {
      return note(error);
    }
    if (!isPromise(result)) return result as Awaited<R>;
    const promise = result as PromiseLike<Awaited<R>>;
    if (!sync) return promise.then(undefined, note);
    // Nobody awaits it: its rejection must not surface as an unhandled one.
    promise.then(undefined, () => undefined);
    return note(new ArgumentTypeError("work", work, "synchronous: this store awaits no promise"));
  };
  return { run, threw: (error) => thrown.includes(error) };
}

function isPromise(value: unknown): value is PromiseLike<unknown> {
  return (
    (typeof value === "object" || typeof value === "function") &&
    value !== null &&
    typeof (value as { then?: unknown }).then === "function"
  );
}

function show(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
