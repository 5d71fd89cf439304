/** The part of a MySQL driver that this backend uses. */
import type { Faults as SqlFaults, Limits, OwnConnection, Result } from "../sql-client.js";
import type { Lane } from "../sql-lane.js";

/** What is bound; 64-bit integers as text, which the statements cast. */
export type Value = string | number | null;

/** A connection that nothing else uses. */
export interface Connection extends OwnConnection<Value> {
  /** A statement without values, of a kind that cannot be prepared. */
  script(text: string): Promise<Result>;
}

/** A connection for renewals. */
export type Renewals = Lane<Value, Connection>;

/** A pool, and connections beside it. */
export interface Database {
  /** One statement that is a transaction by itself. */
  run(text: string, values: readonly Value[], limits: Limits): Promise<Result>;
  /** @param waitingMs how long the caller waits for it; the driver never gives up before that */
  connect(waitingMs?: number): Promise<Connection>;
  /** Closes what the backend has opened. */
  close(): Promise<void>;
}

/** How the driver's errors are read. */
export interface Faults extends SqlFaults {
  /** The server's number of an error. */
  errorNumber(error: unknown): number | undefined;
  /** The server's SQLSTATE of an error. */
  sqlState(error: unknown): string | undefined;
}

/** The tables and procedures that the store needs. */
export interface StorePlan {
  readonly backend: string;
  readonly schema: string | undefined;
  readonly storeTable: string;
  readonly version: number;
  readonly procedures: readonly string[];
  readonly statements: readonly string[];
  readonly migrate: boolean;
}

/** What was found on opening. */
export interface FoundStore {
  readonly storeId: string;
  /** Where the tables are. */
  readonly schema: string;
  /** Whether what is committed is on the disk before the answer. */
  readonly isDurable: boolean;
}

/** Looks at the server and makes missing tables. */
export type Prepare = (connection: Connection, plan: StorePlan) => Promise<FoundStore>;
