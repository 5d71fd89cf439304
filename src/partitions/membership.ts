/** The lease by which a member lives, and how it comes to have it. */
import { whenAborted } from "../core/aborting.js";
import { LeaseLostError } from "../core/errors.js";
import type { Lease } from "../core/lease.js";
import type { Tenure } from "../core/tenure.js";
import type { FencingToken } from "../core/token.js";
import { joinName, memberName } from "./lease-names.js";
import type { PartitionsTerms } from "./options.js";
import { checkRunning, readMembers, readPartitions } from "./roster.js";
import type { MemberSeen } from "./roster.js";

/** What a membership works with. */
export interface MembershipParts {
  readonly tenure: Tenure<FencingToken>;
  readonly group: string;
  readonly member: string;
  readonly terms: Pick<PartitionsTerms, "lease" | "info" | "count">;
  /** Told when the lease is lost. */
  readonly onLost: () => void;
}

/** One member's place among the living. */
export class Membership {
  readonly #parts: MembershipParts;
  #lease: Lease | undefined;
  #isOver = false;
  #over: () => void = () => undefined;

  constructor(parts: MembershipParts) {
    this.#parts = parts;
  }

  /**
   * Becomes a member, one at a time, so that two with different numbers of partitions cannot both
   * find the group empty.
   *
   * @throws PartitionCountError when the group runs with another number; what `hold` throws; the
   *   reason of `signal` once it aborts. It may be a member even then: see {@link leave}.
   */
  async enter(signal: AbortSignal | undefined): Promise<void> {
    do {
      try {
        await this.#enterOnce(signal);
      } catch (error) {
        // Whatever became of the try, whoever gave up is told why: also with the loss of a lease.
        signal?.throwIfAborted();
        // It was frozen while it joined. If it has entered all the same, the elders' number counts.
        if (!(error instanceof LeaseLostError)) throw error;
      }
    } while (this.isLost);
  }

  async #enterOnce(signal: AbortSignal | undefined): Promise<void> {
    const { tenure, group, terms } = this.#parts;
    const asked = signal === undefined ? terms.lease : { ...terms.lease, signal };
    await tenure.hold(joinName(group), asked, async () => {
      const members = await readMembers(tenure, group);
      checkRunning(group, terms.count, members, await readPartitions(tenure, group));
      await this.live(asked);
    });
  }

  /** Whether the lease is gone, or about to be: then it is to enter again. */
  get isLost(): boolean {
    return this.#lease === undefined || this.#lease.signal.aborted;
  }

  /** Refuses a number of partitions that an elder member does not share. */
  check(members: readonly MemberSeen[]): void {
    const { group, terms } = this.#parts;
    const own = this.#lease!.token;
    const elders = members.filter(({ token }) => token !== undefined && token < own);
    checkRunning(group, terms.count, elders, []);
  }

  /**
   * On a store whose records do not end by themselves: asks for the lease of the member that is
   * next in order, which is granted once it was seen unchanged for its TTL. Each of the living asks
   * after one other, so all of the dead are found.
   */
  async withoutDead(members: readonly MemberSeen[]): Promise<readonly MemberSeen[]> {
    const { tenure, group, member, terms } = this.#parts;
    if (tenure.manifest.expiryClock !== "observed") return members;
    const others = members.filter(({ id }) => id !== member);
    const next = others.find(({ id }) => id > member) ?? others[0];
    if (next === undefined) return members;
    const name = memberName(group, next.count, next.id);
    const lease = await tenure.tryAcquire(name, terms.lease);
    if (lease === null) return members;
    await lease.release();
    return members.filter((one) => one !== next);
  }

  /** Gives the lease back: the others see at once that this one is to have nothing any more. */
  async leave(): Promise<void> {
    await this.#lease?.release();
  }

  /** Everything is given up: closing the tenure waits for this. */
  end(): void {
    this.#isOver = true;
    this.#over();
  }

  /** Resolves once the lease is held; it is held until the end, and a tenure awaits its holds. */
  live(asked: PartitionsTerms["lease"]): Promise<void> {
    const { tenure, group, member, terms, onLost } = this.#parts;
    const name = memberName(group, terms.count, member);
    return new Promise((entered, failed) => {
      const living = tenure.hold(name, { ...asked, holderInfo: terms.info }, (lease) => {
        this.#lease = lease;
        entered();
        return new Promise<void>((over) => {
          this.#over = over;
          if (this.#isOver) over();
          whenAborted(lease.signal, () => {
            over();
            onLost();
          });
        });
      });
      // Once it has entered, a loss is what `isLost` tells.
      living.catch(failed);
    });
  }
}
