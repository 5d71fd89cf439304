/**
 * Taking a lock on a majority of the servers.
 *
 * Each try asks all servers. It is granted as soon as a majority has granted it, and fails as soon
 * as none can be had any more; then what some servers granted is taken back at once, on those that
 * seem to have failed as well.
 *
 * A tie: contenders split the servers so that none has a majority.
 *   1. A takes server 1, B takes server 2, C takes server 3.
 *   2. All three are refused by the others, and take back what they have.
 *   3. Each tries again after a random pause that grows; whoever comes first finds all free.
 * Contenders that got no server at all do not try again: with them a tie would go on for longer.
 */
import type { AcquireRequest, Call, Held } from "../../core/backend.js";
import type { Timers } from "../../core/clock.js";
import { UnavailableError } from "../../core/errors.js";
import type { Random } from "../../core/random.js";
import { answersOf, noMajority, type Vote } from "./ballot.js";
import type { Member, Members } from "./members.js";
import { beginning, mostOf, mostTimes, readSeen, recordOf, type Shown } from "./records.js";
import { ACQUIRE, RELEASE } from "./scripts.js";

/** Tries of one call in a tie, and the bound of the first pause between two, milliseconds. */
const TRIES = 5;
const FIRST_PAUSE_MS = 10;

/** What one server answered: it granted, or shows who has the lock. */
type Answer = "granted" | Shown;

interface Failed {
  readonly held: Held;
  readonly isTie: boolean;
}

/** Takes locks, and takes back what did not become one. */
export class Acquiring {
  readonly #members: Members;
  readonly #keyOf: (name: string) => string;
  readonly #timers: Timers;
  readonly #random: Random;
  readonly #takingBack = new Set<Promise<unknown>>();
  #tries = 0;

  constructor(
    members: Members,
    keyOf: (name: string) => string,
    timers: Timers,
    random: Random,
  ) {
    this.#members = members;
    this.#keyOf = keyOf;
    this.#timers = timers;
    this.#random = random;
  }

  /** True when granted. @throws UnavailableError, OutcomeUnknownError without a majority. */
  async acquire(request: AcquireRequest, call: Call): Promise<true | Held> {
    for (let nth = 1; ; nth++) {
      const outcome = await this.#once(request, call);
      if (outcome === true) return true;
      if (!outcome.isTie || nth === TRIES) return outcome.held;
      await this.#pause(FIRST_PAUSE_MS * 2 ** (nth - 1) * this.#random.uniform());
      if (call.signal.aborted) return outcome.held;
    }
  }

  /** Resolves once nothing is being taken back any more. */
  async idle(): Promise<void> {
    await Promise.all(this.#takingBack);
  }

  async #once(request: AcquireRequest, call: Call): Promise<true | Failed> {
    const nonce = (this.#tries += 1).toString(36);
    let isOver = false;
    const ask = async (member: Member): Promise<Answer> => {
      const answer = await this.#ask(member, request, nonce);
      if (isOver && answer === "granted") this.#takeBack(member, request, nonce);
      return answer;
    };
    const failed = (votes: readonly Vote<Answer>[]): void => {
      isOver = true;
      for (const [i, vote] of votes.entries()) {
        const wasRefused = vote !== undefined && "answer" in vote && vote.answer !== "granted";
        if (!wasRefused) this.#takeBack(this.#members.all[i]!, request, nonce);
      }
    };
    const { quorum } = this.#members;
    return this.#members.ask<Answer, true | Failed>(
      ask,
      (votes, isFinal) => {
        const answers = answersOf(votes);
        const granted = answers.filter((answer) => answer === "granted").length;
        if (granted >= quorum) return true;
        const refusals = answers.filter((answer) => answer !== "granted");
        const errors = votes.filter((vote) => vote !== undefined && "error" in vote).length;
        const isHopeless = errors > votes.length - quorum || mostTimes(refusals) >= quorum;
        // Whether it is a tie is seen only when all have answered.
        if (!isFinal && !isHopeless) return undefined;
        failed(votes);
        if (answers.length < quorum) throw noMajority("acquire a lock", votes, granted);
        return outcomeOf(refusals, granted, quorum);
      },
      call,
    );
  }

  async #ask(member: Member, request: AcquireRequest, nonce: string): Promise<Answer> {
    const { name, holder, ttlMs } = request;
    const args = [holder, String(ttlMs), recordOf(request, nonce)];
    const key = this.#keyOf(name);
    const answer = await member.evaluate("acquire a lock", ACQUIRE, [key], args);
    if (answer === 1) return "granted";
    const seen = readSeen(answer);
    if (typeof seen === "object") return seen;
    throw new UnavailableError(`the key of ${JSON.stringify(name)} is not of Tenure's making`, {
      backend: "redlock",
      lock: name,
      retryable: false,
    });
  }

  /** The TTL is the backstop where it fails. */
  #takeBack(member: Member, { name, holder }: AcquireRequest, nonce: string): void {
    const args = [beginning(holder, nonce)];
    const done = member
      .evaluate("take back a lock", RELEASE, [this.#keyOf(name)], args)
      .then(() => undefined, () => undefined)
      .finally(() => this.#takingBack.delete(done));
    this.#takingBack.add(done);
  }

  #pause(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#timers.after(ms, resolve));
  }
}

/** Whom a failed try was refused by, and for how long; with fewer grants than the quorum. */
function outcomeOf(refusals: readonly Shown[], granted: number, quorum: number): Failed {
  const { leftMs: _, ...most } = mostOf(refusals)!;
  // A majority is free once enough of those that refused have let go.
  const lefts = refusals.map(({ leftMs }) => leftMs).sort((a, b) => a - b);
  const leftMs = lefts[quorum - granted - 1];
  return {
    held: leftMs === undefined ? most : { ...most, leftMs },
    isTie: granted > 0 && mostTimes(refusals) < quorum,
  };
}
