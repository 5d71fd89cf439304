/// <reference lib="esnext.disposable" preserve="true" />
/** The toolkit's front: leases of one store, for one process. */
import { Acquisition } from "./acquisition.js";
import type { Backend, Call, Held, HolderInfo } from "./backend.js";
import { Calls, callTimeoutMs, isNoAnswer, isPermanent } from "./call.js";
import { Detaching } from "./detached.js";
import type { DetachedLease } from "./detached.js";
import { ArgumentTypeError, GuaranteeError, UnavailableError } from "./errors.js";
import type { EventSink } from "./events.js";
import { checkBackend, checkGuarantee } from "./guarantee.js";
import type { Purpose } from "./guarantee.js";
import { armTargets, readHold, runHeld } from "./hold.js";
import type { ArmTargets, HoldOptions, Work } from "./hold.js";
import { inspection, listed } from "./inspection.js";
import type { Inspection } from "./inspection.js";
import { HeldLease } from "./lease.js";
import type { Lease } from "./lease.js";
import type { Manifest } from "./manifest.js";
import { checkName, checkNames, checkPrefix } from "./names.js";
import {
  acquireTerms, checkBreak, checkKnown, checkSignal, checkWord, leaseTerms,
  mergeInfo,
} from "./options.js";
import type { AcquireOptions, BreakOptions, LeaseOptions, LeaseTerms } from "./options.js";
import type { Runtime } from "./runtime.js";
import { Stats } from "./stats.js";
import type { NameStats } from "./stats.js";
import { taking } from "./taken.js";
import type { TenureOptions } from "./tenure-options.js";
import { Told } from "./told.js";
import type { FencingToken } from "./token.js";
import { Watches } from "./watching.js";

/** What `hold` accepts as resources on a store with tokens; nothing on one without. */
export type ArmsOf<T extends FencingToken | undefined, R> = [T] extends [FencingToken] ? R : never;

/** Leases of one store. Made by `connect`. */
export class Tenure<T extends FencingToken | undefined = FencingToken>
  extends Told
  implements AsyncDisposable
{
  readonly purpose: Purpose;
  /** Clocks, timers, randomness and events, for what is built over a tenure. */
  readonly runtime: Runtime;
  readonly #backend: Backend<T>;
  readonly #calls: Calls;
  readonly #stats = new Stats();
  readonly #acquisition: Acquisition<T>;
  readonly #detaching: Detaching<T>;
  readonly #watches: Watches;
  readonly #closing = new AbortController();
  readonly #info: HolderInfo;
  readonly #holds = new Set<Promise<unknown>>();
  #defaultTerms: LeaseTerms | undefined;
  #closed: Promise<void> | undefined;

  private constructor(
    backend: Backend<T>,
    runtime: Runtime,
    options: TenureOptions,
    timeoutMs: number,
  ) {
    super();
    this.purpose = checkGuarantee(backend, options.purpose, options.require);
    this.#backend = backend;
    this.runtime = runtime;
    this.#info = mergeInfo(options.holderInfo, runtime.holderInfo);
    this.#calls = new Calls(runtime.timers, timeoutMs, backend.manifest.backend);
    this.#acquisition = new Acquisition(backend, runtime, this.#calls, this.#stats);
    this.#detaching = new Detaching(backend, runtime, this.#calls, this.#acquisition.leases);
    this.#watches = new Watches({ backend, runtime, calls: this.#calls });
  }

  /**
   * A tenure over a backend; the backend is opened, and closed again when it then turns out to
   * promise less. `connect` is the public way.
   *
   * @throws GuaranteeError when the store promises less than `purpose` and `require` ask for.
   */
  static async open<T extends FencingToken | undefined>(
    backend: Backend<T>,
    runtime: Runtime,
    options: TenureOptions = {},
  ): Promise<Tenure<T>> {
    checkBackend(backend);
    const tenure = new Tenure(backend, runtime, options, callTimeoutMs(options.timeout));
    if (backend.open !== undefined) {
      await tenure.#calls.run("open", undefined, (call) => backend.open!(call));
      // What was found on opening may have weakened its manifest.
      await taking(backend, () => checkGuarantee(backend, options.purpose, options.require));
    }
    return tenure;
  }

  /** What the store promises. */
  get manifest(): Manifest<T> {
    return this.#backend.manifest;
  }

  /** Aborts when closing begins, before anything is given back; its reason says so. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  /** Id of the store, kept in the store itself. */
  get storeId(): string {
    return this.#backend.storeId;
  }

  /**
   * A lease, or null when somebody else holds the name. Never waits for a holder.
   *
   * On a store with observed expiry a dead holder's record is taken over only by a caller that has
   * seen it unchanged for its whole TTL, over several calls.
   *
   * @throws TypeError or RangeError for bad arguments, UnavailableError, OutcomeUnknownError.
   */
  async tryAcquire(name: string, options?: LeaseOptions): Promise<Lease<T> | null> {
    checkName(name);
    const terms = options === undefined ? this.#defaults() : this.#terms(options);
    this.#checkOpen();
    const tried = await this.#acquisition.once(name, terms);
    return "lease" in tried ? tried.lease : null;
  }

  /**
   * A lease, waiting for it. There is no re-entry: a name that this process holds is waited for
   * like any other.
   *
   * @throws NotAcquiredError once `wait` has passed; the reason of `signal` once it aborts.
   *   TypeError or RangeError for bad arguments, UnavailableError, OutcomeUnknownError.
   */
  async acquire(name: string, options: AcquireOptions = {}): Promise<Lease<T>> {
    checkName(name);
    const terms = acquireTerms(options, this.#backend.manifest, this.#info);
    this.#checkOpen();
    return this.#acquisition.wait(name, terms);
  }

  /**
   * Runs `work` while holding the lease: arms what `arm` names, awaits the work, releases.
   *
   * @throws What the work throws. LeaseLostError, with the work's own `outcome`, when the lease was
   *   lost before the work ended, or the store had it no more (`absent`) when work that fulfilled
   *   gave it back. What `acquire` and the arming throw.
   */
  hold<V>(name: string, work: Work<Lease<T>, Record<never, never>, V>): Promise<V>;
  hold<V, R extends ArmTargets = Record<never, never>>(
    name: string,
    options: HoldOptions<ArmsOf<T, R>> & { readonly onUnavailable?: "fail" },
    work: Work<Lease<T>, R, V>,
  ): Promise<V>;
  hold<V, R extends ArmTargets = Record<never, never>>(
    name: string,
    options: HoldOptions<ArmsOf<T, R>>,
    work: Work<Lease<T> | undefined, R, V>,
  ): Promise<V>;
  async hold<V>(
    name: string,
    optionsOrWork: HoldOptions<ArmTargets> | Work<Lease<T>, ArmTargets, V>,
    maybeWork?: Work<Lease<T>, ArmTargets, V>,
  ): Promise<V> {
    checkName(name);
    const { options, work } = readHold(optionsOrWork, maybeWork);
    return this.#awaited(this.#hold(name, options, work));
  }

  /**
   * All of these names or none: duplicates are folded, and the names are acquired in one order that
   * all callers share, so that two callers cannot block each other. `wait` counts for all together.
   *
   * @throws What `acquire` throws; nothing is held then.
   */
  async acquireAll(
    names: Iterable<string>,
    options: AcquireOptions = {},
  ): Promise<readonly Lease<T>[]> {
    const sorted = checkNames(names);
    const terms = acquireTerms(options, this.#backend.manifest, this.#info);
    this.#checkOpen();
    return this.#acquisition.waitAll(sorted, terms, (lease) => this.#giveBack(lease));
  }

  /** The live lease of a name, or null. Old the moment it is read: decide nothing by it. */
  async inspect(name: string): Promise<Inspection | null> {
    checkName(name);
    this.#checkOpen();
    const ask = (call: Call): Promise<Held | null> => this.#backend.inspect(name, call);
    const held = await this.#calls.run("inspect", name, ask);
    return held === null ? null : inspection(name, held);
  }

  /**
   * The live lease of a name, or null, and then each change of holder, within about half a second
   * after the store. A renewal is no change. All watches of a name share one, and a slow reader is
   * told the newest alone, so a lease that ended quickly may be missed. A store that does not
   * answer is asked again until it does. Ends when `signal` aborts.
   *
   * On a store with a queue the next waiter shows from its offer on, before it has confirmed.
   *
   * @throws UnavailableError once the tenure is closed, or when asking again cannot help.
   */
  watch(
    name: string,
    options: { readonly signal?: AbortSignal } = {},
  ): AsyncGenerator<Inspection | null, void, undefined> {
    checkName(name);
    checkKnown(options, ["signal"]);
    checkSignal(options.signal);
    this.#checkOpen();
    return this.#watches.watch(name, options.signal);
  }

  /** Live leases whose names start with `prefix` (default: all), in no particular order. */
  async *list(prefix = ""): AsyncGenerator<Inspection, void, undefined> {
    checkPrefix(prefix);
    this.#checkOpen();
    yield* listed(this.#backend, this.#calls, prefix);
  }

  /**
   * Ends somebody's lease, if `token` is still the one that holds; the next token is higher. The
   * holder learns of it at its next renewal; until then only a fence stops it. Audited as an event.
   */
  async break(name: string, options: BreakOptions): Promise<boolean> {
    checkName(name);
    const { token, reason } = checkBreak(options);
    this.#checkOpen();
    const ask = (call: Call): Promise<boolean> => this.#backend.break(name, token, call);
    const broken = await this.#calls.run("break", name, ask);
    if (broken) this.#events.publish({ type: "broken", name, backend: this.#name, token, reason });
    return broken;
  }

  /** What was measured of a name on this process. */
  stats(name: string): NameStats {
    return this.#stats.read(checkName(name), this.runtime.pauses.read());
  }

  /**
   * Stops keeping a lease and leaves it to its TTL, for another process to {@link adopt}. The lease
   * object is of no use afterwards: it counts as released, and releasing it does nothing.
   *
   * @throws LeaseLostError when it is not held. GuaranteeError on a store whose leases die with
   *   the session of this process, or that hands out no tokens.
   */
  detach(lease: Lease<T>): DetachedLease {
    if (!(lease instanceof HeldLease)) throw new ArgumentTypeError("lease", lease, "a lease");
    return this.#detaching.detach(lease as HeldLease<T>);
  }

  /**
   * Goes on with a lease that was detached, perhaps by another process: one renewal takes it up.
   *
   * @throws LeaseLostError when the store no longer shows this holder and token; and as `detach`.
   */
  async adopt(detached: DetachedLease, options: LeaseOptions = {}): Promise<Lease<T>> {
    const terms = this.#terms(options);
    this.#checkOpen();
    return this.#awaited(this.#detaching.adopt(detached, terms));
  }

  /**
   * Releases a detached lease.
   *
   * @throws UnavailableError, OutcomeUnknownError when the store did not answer.
   */
  async giveBack(detached: DetachedLease): Promise<"released" | "not-held"> {
    this.#checkOpen();
    return this.#detaching.giveBack(detached);
  }

  /**
   * Refuses new work, ends all waiting, awaits running holds, releases the rest, and closes what
   * `connect` opened. Further calls await the first.
   *
   * Not to be awaited in the work of a `hold`: each would wait for the other.
   *
   * @throws AggregateError when some leases could not be given back; their TTL ends them.
   */
  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  /** Something that closing waits for. */
  async #awaited<V>(running: Promise<V>): Promise<V> {
    this.#holds.add(running);
    try {
      return await running;
    } finally {
      this.#holds.delete(running);
    }
  }

  #terms(options: LeaseOptions): LeaseTerms {
    return leaseTerms(options, this.#backend.manifest, this.#info);
  }

  #defaults(): LeaseTerms {
    this.#defaultTerms ??= this.#terms({});
    return this.#defaultTerms;
  }

  protected get kind(): string {
    return "Tenure";
  }

  protected facts(): object {
    return { backend: this.#name, purpose: this.purpose, isOpen: this.#closed === undefined };
  }

  get #name(): string {
    return this.#backend.manifest.backend;
  }

  get #events(): EventSink {
    return this.runtime.events;
  }

  async #hold<V>(
    name: string,
    options: HoldOptions<ArmTargets>,
    work: Work<Lease<T>, ArmTargets, V>,
  ): Promise<V> {
    const mode = checkWord(options.onUnavailable ?? "fail", "onUnavailable", ["fail", "proceed"]);
    if (mode === "proceed" && this.purpose !== "efficiency") {
      throw new GuaranteeError(
        `onUnavailable: "proceed" runs the work without a lease: ` +
          `connect(…, { purpose: "efficiency" }) says that a double run only wastes work`,
        { lock: name, backend: this.#name },
      );
    }
    const { arm: _arm, onUnavailable: _mode, ...asked } = options;
    let lease: HeldLease<T>;
    try {
      lease = (await this.acquire(name, asked)) as HeldLease<T>;
    } catch (error) {
      // A mistake in the set-up would make an advisory lock one that is never taken.
      if (mode === "fail" || !isNoAnswer(error) || isPermanent(error)) throw error;
      if (this.#closed !== undefined) throw error;
      this.#events.publish({ type: "proceeded", name, backend: this.#name, error });
      return work(undefined as never, {});
    }
    return runHeld(
      lease,
      async () => work(lease, await armTargets(lease, options.arm)),
      (failed, error) => this.#releaseFailed(failed, error),
    );
  }

  #releaseFailed(lease: HeldLease<T>, error: unknown): void {
    this.#acquisition.leases.forget(lease);
    const { name, holder, ttlMs } = lease;
    this.#acquisition.cleanup.take({ name, holder, ttlMs });
    const about = { name, backend: this.#name, during: "release" };
    this.#events.publish({ type: "unavailable", ...about, error });
  }

  async #giveBack(lease: HeldLease<T>): Promise<void> {
    await lease.release().catch((error: unknown) => this.#releaseFailed(lease, error));
  }

  #checkOpen(): void {
    if (this.#closed !== undefined) throw this.#closedError();
  }

  #closedError(): UnavailableError {
    const about = { backend: this.#name, retryable: false };
    return new UnavailableError("this tenure was closed", about);
  }

  async #close(): Promise<void> {
    this.#closing.abort(this.#closedError());
    const watching = this.#watches.stop(this.#closing.signal.reason);
    const { leases, cleanup, sessions } = this.#acquisition;
    const failures: unknown[] = [];
    const attempt = async (step: Promise<unknown>): Promise<void> => {
      await step.catch((error: unknown) => failures.push(error));
    };
    await this.#acquisition.stop();
    await Promise.allSettled(this.#holds);
    const owed = [...new Set([...leases.open, ...leases.owed])];
    await Promise.all(owed.map((lease) => attempt(lease.release())));
    await Promise.all([attempt(cleanup.close()), watching]);
    if (sessions !== undefined) await attempt(sessions.closeAll());
    await attempt(this.#backend.close());
    this.#calls.endAll();
    if (failures.length > 0)
      throw new AggregateError(failures, `closing ${this.#name} was not clean`);
  }
}
