/** The part of an SQL driver that the backends on SQL servers use. */
import type { Abortable } from "../core/aborting.js";
import type { TenureError } from "../core/errors.js";

/** What is bound; 64-bit integers as text, which the statements cast. */
export type Value = string | number | boolean | null;

/** A row by column names. */
export type Row = Readonly<Record<string, unknown>>;

/** What a statement answered. */
export interface Result {
  readonly rows: readonly Row[];
}

/** When to give up a statement. */
export interface Limits {
  /** Aborted when no connection was free for too long. */
  readonly patience: AbortSignal;
  /** Aborted when nobody waits for the answer any more. */
  readonly signal: Abortable;
}

/** A connection that nothing else uses; its statements run one after the other. */
export interface OwnConnection<V = Value> {
  query(text: string, values?: readonly V[]): Promise<Result>;
  /** False once the session has ended: it is never replaced in silence. */
  readonly isOpen: boolean;
  close(): Promise<void>;
  destroy(): void;
}

/** What is known of a failure. */
export interface Failure {
  /** What was being done, as it stands after "cannot". */
  readonly during: string;
  readonly backend: string;
  readonly lock?: string;
}

/** How the driver's errors are read. */
export interface Faults {
  /** Whether a statement only met others that were faster. */
  isContention(error: unknown): boolean;
  explain(error: unknown, failure: Failure): TenureError;
}
