/**
 * Four families of errors, told apart by `family` and, each, by a stable `code`.
 *
 * - `caller`: a mistake of the caller: a `TypeError` or `RangeError` that names option and value
 * - `refused`: the store or the resource said no
 * - `unavailable`: the store could not be asked; it certainly did not happen
 * - `unknown`: the answer was lost; it may have happened
 */
import type { Held } from "./backend.js";
import { jsonFacts } from "./told.js";

/** Where an error comes from. */
export type ErrorFamily = "caller" | "refused" | "unavailable" | "unknown";

/** Facts that every error may carry. */
export interface ErrorContext {
  readonly cause?: unknown;
  /** Which backend or fence. */
  readonly backend?: string;
  /** Which lock name. */
  readonly lock?: string;
}

/** Common ground of all errors that are not a caller's mistake. */
export abstract class TenureError extends Error {
  abstract readonly code: string;
  abstract readonly family: ErrorFamily;
  declare readonly backend?: string;
  declare readonly lock?: string;

  constructor(message: string, context: ErrorContext = {}) {
    super(message, context.cause === undefined ? undefined : { cause: context.cause });
    this.name = new.target.name;
    if (context.backend !== undefined) this.backend = context.backend;
    if (context.lock !== undefined) this.lock = context.lock;
  }

  /** For `JSON.stringify` and loggers: name, message and facts, tokens as decimal text. */
  toJSON(): Record<string, unknown> {
    return jsonFacts({ ...this, name: this.name, message: this.message });
  }
}

/** Somebody else holds the name, and the time to wait has passed. */
export class NotAcquiredError extends TenureError {
  readonly code = "TENURE_NOT_ACQUIRED";
  readonly family = "refused";
  /** The present holder as last seen, with token and time left where the store tells them. */
  declare readonly held?: Held;

  constructor(message: string, context: ErrorContext & { readonly held?: Held } = {}) {
    super(message, context);
    if (context.held !== undefined) this.held = context.held;
  }
}

/** Why a lease was lost. */
export type LostReason =
  /** The holder's own deadline passed, or is closer than the grace, without a renewal. */
  | "deadline"
  /** The store shows another holder. */
  | "taken"
  /** The store shows no record: expired, broken, deleted. */
  | "absent"
  /** The session that carried the lease has ended. */
  | "session"
  /** The lease was held longer than `maxHold`. */
  | "max-hold"
  /** The holder itself has released it. */
  | "released";

/** How the work of a `hold` ended whose lease was lost. */
export type WorkOutcome =
  | { readonly status: "fulfilled"; readonly value: unknown }
  | { readonly status: "rejected"; readonly reason: unknown };

/** The lease is no longer this holder's to act on. */
export class LeaseLostError extends TenureError {
  readonly code = "TENURE_LEASE_LOST";
  readonly family = "refused";
  readonly reason: LostReason;
  /** Who holds now, where the store told. */
  declare readonly by?: Held;
  /** Set by `hold`: how the work ended all the same. */
  declare readonly outcome?: WorkOutcome;

  constructor(
    message: string,
    context: ErrorContext & {
      readonly reason: LostReason;
      readonly by?: Held;
      readonly outcome?: WorkOutcome;
    },
  ) {
    super(message, context);
    this.reason = context.reason;
    if (context.by !== undefined) this.by = context.by;
    if (context.outcome !== undefined) this.outcome = context.outcome;
  }

  /** How the work ended, without what it returned, which may be anything. */
  override toJSON(): Record<string, unknown> {
    const { outcome, ...facts } = this;
    const { name, message } = this;
    return jsonFacts({ ...facts, name, message, ...(outcome && { outcome: outcome.status }) });
  }
}

/** The clock is in doubt (a paused virtual machine): ask again once a renewal has answered. */
export class UnverifiedError extends TenureError {
  readonly code = "TENURE_UNVERIFIED";
  readonly family = "refused";
}

/** The mark of a resource, as an error tells it. */
export interface SeenMark {
  readonly token: bigint;
  readonly holder: string;
}

/** Facts about a refused fenced operation. */
export interface FenceContext extends ErrorContext {
  readonly resource: string;
  readonly token?: bigint;
  readonly mark?: SeenMark;
}

/** Common ground of what a fence refuses. */
export abstract class FenceError extends TenureError {
  readonly family = "refused";
  readonly resource: string;
  /** Token of the refused operation. */
  declare readonly token?: bigint;
  /** The mark that refused it. */
  declare readonly mark?: SeenMark;

  constructor(message: string, context: FenceContext) {
    super(message, context);
    this.resource = context.resource;
    if (context.token !== undefined) this.token = context.token;
    if (context.mark !== undefined) this.mark = context.mark;
  }
}

/** The token is older than the mark: a newer holder has armed. */
export class StaleTokenError extends FenceError {
  readonly code = "TENURE_STALE_TOKEN";
}

/** The same token from two holders: the lock store gave one token out twice. */
export class TokenConflictError extends FenceError {
  readonly code = "TENURE_TOKEN_CONFLICT";
}

/** A newer arming of the same holder has replaced this handle, or a write number came twice. */
export class SupersededError extends FenceError {
  readonly code = "TENURE_SUPERSEDED";
}

/** The token comes from another store or another lock name than the mark's. */
export class TokenScopeError extends FenceError {
  readonly code = "TENURE_TOKEN_SCOPE";
}

/** The mark of the resource does not know the arming: it was deleted or put back. */
export class NotArmedError extends FenceError {
  readonly code = "TENURE_NOT_ARMED";
}

/** Only the leader may do this. */
export class NotLeaderError extends TenureError {
  readonly code = "TENURE_NOT_LEADER";
  readonly family = "refused";
}

/** The work of a leader has not stopped in time; it may still be running. */
export class StepDownTimeoutError extends TenureError {
  readonly code = "TENURE_STEP_DOWN_TIMEOUT";
  readonly family = "unknown";
  /** Term of the work. */
  readonly term: bigint;

  constructor(message: string, context: ErrorContext & { readonly term: bigint }) {
    super(message, context);
    this.term = context.term;
  }
}

/** The store cannot promise what was asked for. */
export class GuaranteeError extends TenureError {
  readonly code = "TENURE_GUARANTEE";
  readonly family = "refused";
}

/** The store could not be asked, or refused to serve: it certainly did not happen. */
export class UnavailableError extends TenureError {
  readonly code = "TENURE_UNAVAILABLE";
  readonly family = "unavailable";
  /** False when asking again cannot help: a corrupt file, a missing library, a closed tenure. */
  readonly retryable: boolean;

  constructor(message: string, context: ErrorContext & { readonly retryable?: boolean } = {}) {
    super(message, context);
    this.retryable = context.retryable ?? true;
  }
}

/** The request left and the answer is lost: it may have happened. */
export class OutcomeUnknownError extends TenureError {
  readonly code = "TENURE_OUTCOME_UNKNOWN";
  readonly family = "unknown";
}

/** What marks a `TypeError` or `RangeError` as a caller's mistake told by Tenure. */
export interface CallerMistake {
  readonly code: "TENURE_INVALID_ARGUMENT";
  readonly family: "caller";
  /** Which option or argument. */
  readonly option: string;
  /** Not shown by loggers: it may be a whole client, with its password. The message tells it. */
  readonly value: unknown;
}

/** An argument of the wrong type or form. */
export class ArgumentTypeError extends TypeError implements CallerMistake {
  readonly code = "TENURE_INVALID_ARGUMENT";
  readonly family = "caller";
  readonly option: string;
  declare readonly value: unknown;

  constructor(option: string, value: unknown, must: string) {
    super(`${option} must be ${must}, got ${show(value)}`);
    this.option = option;
    Object.defineProperty(this, "value", { value });
  }

  /** For `JSON.stringify` and loggers. */
  toJSON(): Record<string, unknown> {
    return jsonFacts({ ...this, name: this.name, message: this.message });
  }
}

/** An argument outside its range. */
export class ArgumentRangeError extends RangeError implements CallerMistake {
  readonly code = "TENURE_INVALID_ARGUMENT";
  readonly family = "caller";
  readonly option: string;
  declare readonly value: unknown;

  constructor(option: string, value: unknown, must: string) {
    super(`${option} must be ${must}, got ${show(value)}`);
    this.option = option;
    Object.defineProperty(this, "value", { value });
  }

  /** For `JSON.stringify` and loggers. */
  toJSON(): Record<string, unknown> {
    return jsonFacts({ ...this, name: this.name, message: this.message });
  }
}

function isPromise(value: object): boolean {
  try {
    return typeof (value as { readonly then?: unknown }).then === "function";
  } catch {
    // A value that cannot be looked into is shown all the same.
    return false;
  }
}

/** Where none is taken: a URL that has a user part or a query may have a password. */
function withoutSecret(text: string): string {
  const start = text.indexOf("//");
  const isUrl = start > 0 && text[start - 1] === ":";
  if (!isUrl || !/[@?]/.test(text.slice(start))) return text;
  return `${text.slice(0, text.indexOf(":") + 1)}…`;
}

/** A value as an error message shows it: short, typed, without secrets, never throwing. */
function show(value: unknown): string {
  switch (typeof value) {
    case "string": {
      const text = withoutSecret(value);
      return JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text);
    }
    case "bigint":
      return `${value}n`;
    case "function":
      return "a function";
    case "symbol":
      return "a symbol";
    case "object":
      if (value === null) return "null";
      if (isPromise(value)) return "a promise: is an await missing?";
      return Array.isArray(value) ? "an array" : "an object";
    default:
      return String(value);
  }
}
