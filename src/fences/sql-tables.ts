/** Tables under an unskippable fence on an SQL server: what is asked, and what is told of them. */
import { checkName, checkPrefix } from "../core/names.js";

/** Which table to fence, and how its rows say to which resource they belong. */
export interface InstallOptions {
  /** Name as the server has it, without quotes; on Postgres also `schema.table`. */
  readonly table: string;
  /** Default: the connection's; on Postgres that in which the search path finds the table. */
  readonly schema?: string;
  /**
   * Column with the resource's name, or with the part of it after `prefix`. Its type must have one
   * text form: text, integer, decimal, uuid, enum; on Postgres also boolean.
   */
  readonly resource: string;
  /** Default none: the column's text is the whole name. */
  readonly prefix?: string;
}

/** A table under the fence. Covered, but for what `ways` says, as long as `faults` is empty. */
export interface FencedTable {
  readonly schema: string;
  readonly table: string;
  readonly column: string;
  readonly prefix: string;
  readonly faults: readonly string[];
}

/** What `audit` says. */
export interface FenceAudit {
  readonly tables: readonly FencedTable[];
  /**
   * Tables that anybody with rights may write: of the database on Postgres, as `schema.table`; of
   * the connection's schema on MySQL.
   */
  readonly uncovered: readonly string[];
  /** What can still get round the fence, and who could where the server tells. */
  readonly ways: readonly string[];
  /** Rebases, bypasses, installations, oldest first. */
  readonly log: readonly AuditEntry[];
}

/** One entry of the audit log. */
export interface AuditEntry {
  /** UTC, by the server's clock; on Postgres: when the transaction began. */
  readonly at: string;
  readonly event: string;
  readonly subject: string;
  readonly detail: string;
  /** Who was logged in. */
  readonly role: string;
}

/** Checks options before anything is asked. @throws TypeError or RangeError. */
export function checkInstall(options: InstallOptions): void {
  checkName(options.table, "table");
  if (options.schema !== undefined) checkName(options.schema, "schema");
  checkName(options.resource, "resource");
  checkPrefix(options.prefix ?? "");
}
