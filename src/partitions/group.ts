/**
 * A group whose members share its partitions among themselves, with nothing but the leases of one
 * store.
 *
 * Each member lives by a lease, and each partition is owned by a lease. A member looks at the list
 * of the living, three times per TTL: one request, however many partitions there are. While all is
 * **settled** that is all it does. When somebody came or went it looks at the partitions too,
 * computes who is to own what (`plan.ts`), gives up what it has too much of and takes what is free
 * and its own; it looks again after a short pause, until all is settled.
 *
 * A change is acted on when two looks in a row have shown it, so that ten members that start
 * together move what they must once, and not ten times; but within a TTL, however many come and go.
 *
 * How long can a partition be without an owner? A dead member's leases last one TTL at most. Then a
 * third of it passes until somebody looks, two short pauses (a fiftieth of the TTL, 50 ms to 1 s),
 * and the taking.
 */
import { whenAborted } from "../core/aborting.js";
import { isNoAnswer } from "../core/call.js";
import { elapsedMs, now, type Moment } from "../core/deadline.js";
import { UnavailableError } from "../core/errors.js";
import type { Tenure } from "../core/tenure.js";
import type { FencingToken } from "../core/token.js";
import type { OwnedPartition, PartitionGroup, PartitionsView, PartitionWork } from "./contract.js";
import { Holdings } from "./holdings.js";
import { partitionOf } from "./key-hash.js";
import { partitionName } from "./lease-names.js";
import { Membership } from "./membership.js";
import { checkGroupName, checkTenure, partitionsTerms } from "./options.js";
import type { PartitionsOptions, PartitionsTerms } from "./options.js";
import { Ownership } from "./ownership.js";
import { Pacing } from "./pacing.js";
import { ELSEWHERE, partOf } from "./plan.js";
import { readGroup, readMembers, readPartitions, readView } from "./roster.js";
import type { MemberSeen, PartitionInfo, PartitionSeen } from "./roster.js";
import { closedError, runWork } from "./run-work.js";

/** Partitions that one member takes at once. */
const MOST_AT_ONCE = 16;
/** After so many looks at the living alone, the partitions are looked at all the same. */
const FULL_LOOK_EVERY = 10;

/**
 * Joins the group of this name: all who give the same name in the same store share its partitions.
 *
 * @throws TypeError or RangeError for bad arguments. PartitionCountError when the group runs with
 *   another number of partitions. GuaranteeError on a store without tokens. UnavailableError,
 *   OutcomeUnknownError when the store does not answer; the reason of `signal` once it aborts.
 */
export async function partitions(
  tenure: Tenure<FencingToken>,
  name: string,
  options: PartitionsOptions,
): Promise<PartitionGroup> {
  checkTenure(tenure);
  const group = new Group(tenure, checkGroupName(name), partitionsTerms(options, tenure.manifest));
  await group.join();
  return group;
}

/** Who owns what in the group of this name, for somebody who is no member. */
export async function partitionsView(
  tenure: Tenure<FencingToken>,
  name: string,
): Promise<PartitionsView> {
  checkTenure(tenure);
  return readView(tenure, checkGroupName(name));
}

/** The one implementation of {@link PartitionGroup} by leases alone. */
class Group implements PartitionGroup {
  readonly name: string;
  readonly member: string;
  readonly #tenure: Tenure<FencingToken>;
  readonly #terms: PartitionsTerms;
  readonly #holdings: Holdings;
  readonly #membership: Membership;
  readonly #pacing: Pacing;
  readonly #over = new AbortController();
  #living: Promise<void> = Promise.resolve();
  #closing: Promise<void> | undefined;
  /** Ids of the members as of the last look, how often they were the same, since when not. */
  #members = "";
  #sameLooks = 0;
  #unsettledAt: Moment;
  #isSettled = false;
  #looks = 0;
  #unlisten: () => void = () => undefined;

  constructor(tenure: Tenure<FencingToken>, name: string, terms: PartitionsTerms) {
    const { runtime, manifest } = tenure;
    this.name = name;
    this.member = runtime.random.id();
    this.#tenure = tenure;
    this.#terms = terms;
    this.#unsettledAt = now(runtime.clock);
    this.#pacing = new Pacing(runtime, terms.ttlMs);
    const { member } = this;
    const onLost = (): void => this.#unsettle();
    this.#membership = new Membership({ tenure, group: name, member, terms, onLost });
    this.#holdings = new Holdings({
      runtime,
      backend: manifest.backend,
      terms,
      create: (partition, lease, parts) => new Ownership(partition, lease, parts),
      onGone: () => this.#unsettle(),
      onFailed: (error) => void this.#end(error),
    });
  }

  get count(): number {
    return this.#terms.count;
  }

  get owned(): readonly OwnedPartition[] {
    return this.#holdings.owned;
  }

  get signal(): AbortSignal {
    return this.#over.signal;
  }

  partitionFor(key: string | Uint8Array): number {
    return partitionOf(key, this.count);
  }

  run(work: PartitionWork, options: { readonly signal?: AbortSignal } = {}): Promise<void> {
    return runWork(this, this.#holdings, work, options);
  }

  view(): Promise<PartitionsView> {
    return readView(this.#tenure, this.name);
  }

  /** Becomes a member, and begins to look after its share. */
  async join(): Promise<void> {
    try {
      await this.#membership.enter(this.#terms.signal);
    } catch (error) {
      // A member that nobody looks after would be left its share for ever.
      await this.close();
      throw error;
    }
    const { closing } = this.#tenure;
    this.#unlisten = whenAborted(closing, () => void this.close());
    if (this.#closing === undefined) this.#living = this.#live();
  }

  close(): Promise<void> {
    return this.#end(closedError(this.name, this.#tenure.manifest.backend));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #end(reason: unknown): Promise<void> {
    if (this.#closing === undefined) {
      this.#closing = this.#leave();
      this.#pacing.end();
      this.#over.abort(reason);
    }
    return this.#closing;
  }

  async #leave(): Promise<void> {
    // A look under way may be about to take something.
    await this.#living;
    const drained = this.#holdings.drained("is given up: its member leaves the group");
    // The others plan without this one at once, and take each partition when it is given up.
    await this.#membership.leave().catch((error: unknown) => this.#holdings.tell(error));
    await drained;
    this.#membership.end();
    this.#unlisten();
  }

  /** Looks, acts and rests until the group ends. Never rejects. */
  async #live(): Promise<void> {
    while (this.#closing === undefined) {
      try {
        await this.#look();
      } catch (error) {
        if (this.#closing !== undefined) return;
        const isFinal = error instanceof UnavailableError && !error.retryable;
        if (isFinal || !isNoAnswer(error)) {
          void this.#end(error);
          return;
        }
        this.#isSettled = false;
        this.#holdings.tell(error);
      }
      await this.#pacing.rest(this.#isSettled);
    }
  }

  async #look(): Promise<void> {
    if (this.#membership.isLost) await this.#membership.enter(this.signal);
    const { members: listed, partitions: held } = await this.#list();
    this.#membership.check(listed);
    const members = await this.#membership.withoutDead(listed);
    this.#noteMembers(members);
    const isDue = ++this.#looks % FULL_LOOK_EVERY === 0;
    if (this.#isSettled && !isDue) return;
    await this.#act(members, held ?? (await readPartitions(this.#tenure, this.name)));
  }

  /**
   * The living; also the partitions, where nobody but who has watched a lease can tell that it is
   * over: else the watch of a dead member's partitions would begin when it is known to be dead.
   */
  async #list(): Promise<{ members: MemberSeen[]; partitions?: PartitionSeen[] }> {
    if (this.#isObserved) return readGroup(this.#tenure, this.name);
    return { members: await readMembers(this.#tenure, this.name) };
  }

  get #isObserved(): boolean {
    return this.#tenure.manifest.expiryClock === "observed";
  }

  #noteMembers(members: readonly MemberSeen[]): void {
    const ids = members.map(({ id }) => id).join(" ");
    this.#sameLooks++;
    if (ids === this.#members) return;
    this.#members = ids;
    this.#sameLooks = 1;
    this.#unsettle();
  }

  async #act(members: readonly MemberSeen[], seen: readonly PartitionSeen[]): Promise<void> {
    // A list may be a little old: this one lives, and knows what it holds.
    const ids = [...new Set([...members.map(({ id }) => id), this.member])];
    const owners = this.#owners(new Set(ids), seen);
    const part = partOf(this.member, { count: this.count, members: ids, owners });
    if (!part.isSettled) this.#unsettle(false);
    this.#isSettled = part.isSettled;
    const { clock } = this.#tenure.runtime;
    const unsettledMs = elapsedMs(this.#unsettledAt, now(clock));
    if (this.#sameLooks < 2 && unsettledMs < this.#terms.ttlMs) return;
    for (const partition of part.revoke) {
      this.#holdings.get(partition)?.revoke("is to be another member's");
    }
    // On a store that cannot say who is dead, the way to learn it is to ask for the lease.
    await this.#takeAll(this.#isObserved ? [...part.take, ...part.await] : part.take);
  }

  #owners(living: ReadonlySet<string>, seen: readonly PartitionSeen[]): Map<number, string> {
    const owners = new Map<number, string>();
    for (const { partition, member } of seen) {
      const isLiving = member !== undefined && member !== this.member && living.has(member);
      owners.set(partition, isLiving ? member : ELSEWHERE);
    }
    for (const { partition, state } of this.#holdings.held) {
      owners.set(partition, state === "owned" ? this.member : ELSEWHERE);
    }
    return owners;
  }

  async #takeAll(wanted: readonly number[]): Promise<void> {
    const left = wanted.filter((partition) => this.#holdings.get(partition) === undefined);
    const taker = async (): Promise<void> => {
      for (let next = left.shift(); next !== undefined; next = left.shift()) {
        if (this.#closing !== undefined) return;
        await this.#take(next);
      }
    };
    const takers = Array.from({ length: Math.min(MOST_AT_ONCE, left.length) }, taker);
    // All of them first: what one still takes must not come after the end.
    const outcomes = await Promise.allSettled(takers);
    for (const outcome of outcomes) if (outcome.status === "rejected") throw outcome.reason;
  }

  async #take(partition: number): Promise<void> {
    const { lease: asked, count, info } = this.#terms;
    const facts: PartitionInfo = { ...info, member: this.member, of: count };
    const name = partitionName(this.name, partition);
    const lease = await this.#tenure.tryAcquire(name, { ...asked, holderInfo: facts });
    if (lease === null) return;
    this.#holdings.add(partition, lease);
    this.#pacing.stir();
  }

  /** Something is to be done; `isNews` when that was not known yet. */
  #unsettle(isNews = true): void {
    if (this.#isSettled) this.#unsettledAt = now(this.#tenure.runtime.clock);
    this.#isSettled = false;
    if (isNews) this.#pacing.stir();
  }
}
