/** The part of a Postgres driver that this backend uses. */
import type { OwnConnection } from "../sql-client.js";

/** A connection that nothing else uses. */
export interface Connection extends OwnConnection {
  script(text: string): Promise<void>;
  readonly announcedPid: number | undefined;
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
  readonly isDurable: boolean;
  /** Whether a pooler stands between. */
  readonly isPooled: boolean;
  /** Said where the functions are those of an older release, which work. */
  readonly outdated?: string | undefined;
}
