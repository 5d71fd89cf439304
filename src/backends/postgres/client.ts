/** The part of a Postgres driver that this backend uses. */
import type { Faults as SqlFaults, Limits, OwnConnection, Result, Value } from "../sql-client.js";
import type { Lane } from "../sql-lane.js";

/** How a statement is run. */
export interface Running extends Limits {
  /** Whether sessions may keep it prepared. */
  readonly isPrepared: boolean;
}

/** A connection that nothing else uses. */
export interface Connection extends OwnConnection {
  /** Several statements without values. */
  script(text: string): Promise<void>;
  /** Process id as announced: not the server's own where a pooler stands between. */
  readonly announcedPid: number | undefined;
  onNotice: ((channel: string, payload: string) => void) | undefined;
  onEnd: (() => void) | undefined;
}

/** A connection for renewals. */
export type Renewals = Lane<Value, Connection>;

/** A pool, and connections beside it. */
export interface Database {
  /** One statement that is a transaction by itself. */
  run(text: string, values: readonly Value[], running: Running): Promise<Result>;
  /** @param waitingMs how long the caller waits for it; the driver never gives up before that */
  connect(waitingMs?: number): Promise<Connection>;
  /** Closes what the backend has opened. */
  close(): Promise<void>;
}

/** How the driver's errors are read. */
export interface Faults extends SqlFaults {
  /** The server's code of an error. */
  sqlState(error: unknown): string | undefined;
}

/** The tables that the store needs. */
export interface StorePlan {
  readonly backend: string;
  readonly schema: string;
  readonly storeTable: string;
  readonly version: number;
  readonly script: string;
  /** Of its functions: the revision that this release has, and SQL of the one that is there. */
  readonly functions: { readonly revision: number; readonly foundSql: string };
  readonly migrate: boolean;
  readonly oldestServer: number;
}

/** What was found on opening. */
export interface FoundStore {
  readonly storeId: string;
  /** Whether what is committed is on the disk before the answer. */
  readonly isDurable: boolean;
  /** Whether a pooler stands between: notices would reach whoever uses the session then. */
  readonly isPooled: boolean;
  /** Said where the functions are those of an older release, which work. */
  readonly outdated?: string | undefined;
  /** Whether the server tells its timeline. */
  readonly hasTimeline: boolean;
}
