/** The part of a SQLite driver and of the machine that this backend uses. */
import type { TenureError } from "../../core/errors.js";

/** What is bound: integers as `bigint`, since drivers bind a `number` as REAL. */
export type Value = bigint | string | null;

/** A prepared statement that reads every integer as `bigint`. */
export interface Statement {
  run(...values: Value[]): { readonly changes: number | bigint };
  get(...values: Value[]): unknown;
  all(...values: Value[]): unknown[];
}

/** One connection to the file, with a busy time-out of 0, that nothing else uses. */
export interface Connection {
  /** Absolute path of the file. */
  readonly file: string;
  readonly inTransaction: boolean;
  exec(sql: string): void;
  prepare(sql: string): Statement;
  close(): void;
}

/** How the driver's errors are read. */
export interface Faults {
  /** Whether another connection has the lock: nothing happened, and it can be tried again. */
  isBusy(error: unknown): boolean;
  /** An error of Tenure for what was thrown `during` a call that has been rolled back. */
  explain(error: unknown, during: string): TenureError;
}

/** What all processes of one machine share, and which process this is among them. */
export interface Machine {
  /** Changes with every boot of the machine. */
  readonly bootId: string;
  /** Two processes with the same id read the same {@link Machine.nowMs}. */
  readonly clockId: string;
  readonly pid: number;
  /** Folder for sockets where the path beside the file would be too long. */
  readonly tempFolder: string;
  /** Whether a refused connection to a socket file proves that its owner is gone. */
  readonly refusalIsProof: boolean;
  /** Monotonic milliseconds since an origin that all processes of one boot share. */
  nowMs(): number;
}
