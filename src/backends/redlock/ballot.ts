/**
 * Asking all servers at once, and concluding as soon as their answers allow it: a server that hangs
 * slows nothing down that the others can decide.
 *
 * What the others cannot decide waits for the stragglers a little longer, and not for as long as
 * the call may take: a lock that is held by some servers and refused by some would otherwise stay
 * half taken meanwhile.
 */
import type { Call } from "../../core/backend.js";
import type { Timer, Timers } from "../../core/clock.js";
import { OutcomeUnknownError, UnavailableError, type TenureError } from "../../core/errors.js";

/** How long stragglers are waited for once a majority has answered, milliseconds. */
export const STRAGGLER_MS = 200;
/** Part of a call's time after which we conclude: the answer must come before the core stops. */
const SHARE_OF_CALL = 0.9;

/** What came of asking one server; undefined while nothing has. */
export type Vote<V> = { readonly answer: V } | { readonly error: TenureError } | undefined;

/**
 * A conclusion from the votes so far, or undefined to wait for more. With `isFinal` no more will
 * come: then it concludes, or throws.
 */
export type Verdict<V, R> = (votes: readonly Vote<V>[], isFinal: boolean) => R | undefined;

/** Asks the members, which never throw synchronously and reject with errors of Tenure. */
export function askAll<M, V, R>(
  members: readonly M[],
  question: (member: M) => Promise<V>,
  verdict: Verdict<V, R>,
  timers: Timers,
  call: Pick<Call, "timeoutMs">,
): Promise<R> {
  return new Promise((resolve, reject) => {
    const votes: Vote<V>[] = members.map(() => undefined);
    const quorum = quorumOf(members.length);
    let settled = 0;
    let isOver = false;
    let patience: Timer | undefined;
    const conclude = (isFinal: boolean): void => {
      if (isOver) return;
      try {
        const result = verdict(votes, isFinal);
        if (result === undefined && !isFinal) return;
        resolve(result as R);
      } catch (error) {
        reject(error);
      }
      isOver = true;
      limit.cancel();
      patience?.cancel();
    };
    const limit = timers.after(call.timeoutMs * SHARE_OF_CALL, () => conclude(true));
    const note = (i: number, vote: Vote<V>): void => {
      votes[i] = vote;
      settled += 1;
      conclude(settled === members.length);
      if (isOver || settled < quorum) return;
      patience ??= timers.after(STRAGGLER_MS, () => conclude(true));
    };
    for (const [i, member] of members.entries()) {
      question(member).then(
        (answer) => note(i, { answer }),
        (error: TenureError) => note(i, { error }),
      );
    }
  });
}

/** The smallest majority. */
export function quorumOf(members: number): number {
  return Math.floor(members / 2) + 1;
}

/** The answers among the votes. */
export function answersOf<V>(votes: readonly Vote<V>[]): readonly V[] {
  return votes.flatMap((vote) => (vote !== undefined && "answer" in vote ? [vote.answer] : []));
}

/** How many servers may have done what they were asked without our knowing. */
export function unsureOf(votes: readonly Vote<unknown>[]): number {
  const isUnsure = (vote: Vote<unknown>): boolean =>
    vote === undefined || ("error" in vote && !(vote.error instanceof UnavailableError));
  return votes.filter(isUnsure).length;
}

/**
 * The error for a majority that could not be had.
 *
 * @param done servers that did what they were asked: with those that may have, if that makes a
 *   majority, the outcome is unknown
 */
export function noMajority(during: string, votes: readonly Vote<unknown>[], done: number): Error {
  const errors = votes.flatMap((vote) =>
    vote !== undefined && "error" in vote ? [vote.error] : [],
  );
  const silent = votes.filter((vote) => vote === undefined).length;
  const reasons = [
    ...new Set(errors.map((error) => error.message)),
    ...(silent > 0 ? [`${silent} did not answer`] : []),
  ];
  const answered = votes.length - errors.length - silent;
  const text =
    `cannot ${during}: ${answered} of ${votes.length} servers answered, a majority is needed: ` +
    reasons.join("; ");
  const quorum = quorumOf(votes.length);
  const context = { backend: "redlock", cause: new AggregateError(errors) };
  if (done + unsureOf(votes) >= quorum) return new OutcomeUnknownError(text, context);
  const staying = errors.filter((error) => error instanceof UnavailableError && !error.retryable);
  const retryable = votes.length - staying.length >= quorum;
  return new UnavailableError(text, { ...context, retryable });
}
