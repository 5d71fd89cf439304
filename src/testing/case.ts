import type { Manifest } from "../core/manifest.js";
import type { Subject, SubjectStore } from "./subject.js";
import type { Trial } from "./trial.js";

/** What a case needs to know to say whether it applies. */
export interface Conditions {
  readonly manifest: Manifest;
  /** The powers of the subject's store. */
  readonly powers: SubjectStore;
  readonly subject: Subject;
}

/** One behaviour that a backend must show. */
export interface ConformanceCase {
  /** Stable: reports and exclusions name it. */
  readonly id: string;
  /** The promise, as a sentence about the backend. */
  readonly title: string;
  /** True, or the reason why this backend is not asked. */
  applies(conditions: Conditions): true | string;
  /** Resolves when the promise was kept; rejects with a `BrokenPromise` when not. */
  run(trial: Trial): Promise<void>;
}

/** Applies to every backend. */
export const always = (): true => true;

/** Applies where the store hands out tokens. */
export function withTokens({ manifest }: Conditions): true | string {
  return manifest.tokens === "none" ? 'the manifest says tokens: "none"' : true;
}

/** Applies where the store itself decides when a lease has expired. */
export function whereStoreExpires({ manifest }: Conditions): true | string {
  return manifest.expiryClock === "observed"
    ? 'expiryClock "observed": only contenders can tell that a lease has expired'
    : true;
}

/** Applies where the store keeps the waiters in order. */
export function whereQueued({ manifest }: Conditions): true | string {
  return manifest.waiting === "queue" ? true : `waiting is "${manifest.waiting}", not "queue"`;
}

/** Applies where all of the given conditions hold; the first reason against it wins. */
export function allOf(
  ...conditions: readonly ((c: Conditions) => true | string)[]
): (c: Conditions) => true | string {
  return (c) => {
    for (const condition of conditions) {
      const answer = condition(c);
      if (answer !== true) return answer;
    }
    return true;
  };
}

/** Applies where the subject brings the core. */
export function withCore({ subject }: Conditions): true | string {
  return subject.connect === undefined ? "the subject does not bring the package's connect" : true;
}

/** Applies where the subject has the power. */
export function withPower(power: keyof SubjectStore): (c: Conditions) => true | string {
  return ({ powers }) => (powers[power] === undefined ? `the subject cannot ${power}` : true);
}
