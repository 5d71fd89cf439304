/**
 * What a SQLite library threw, as one of our errors: which file, what happened, what to do.
 *
 * Both libraries carry SQLite's result code, one as text (`SQLITE_IOERR_WRITE`), the other as a
 * number (778). Codes: https://sqlite.org/rescode.html
 */
import {
  OutcomeUnknownError,
  TenureError,
  UnavailableError,
  type ErrorContext,
} from "../../core/errors.js";

const PRIMARY = {
  1: "ERROR",
  3: "PERM",
  5: "BUSY",
  6: "LOCKED",
  7: "NOMEM",
  8: "READONLY",
  10: "IOERR",
  11: "CORRUPT",
  13: "FULL",
  14: "CANTOPEN",
  15: "PROTOCOL",
  17: "SCHEMA",
  19: "CONSTRAINT",
  22: "NOLFS",
  23: "AUTH",
  26: "NOTADB",
} as const;

/**
 * SQLite's primary result code by name. `CLOSED` is none of SQLite's: the connection was closed.
 * `OTHER` is a code that needs no distinction here.
 */
export type SqliteCode = (typeof PRIMARY)[keyof typeof PRIMARY] | "CLOSED" | "OTHER";

const NAMES: readonly string[] = Object.values(PRIMARY);

/** The primary result code of an error of either library; undefined when it is no such error. */
export function sqliteCode(error: unknown): SqliteCode | undefined {
  if (!(error instanceof Error)) return undefined;
  const { code, errcode } = error as { code?: unknown; errcode?: unknown };
  if (code === "ERR_SQLITE_ERROR" && typeof errcode === "number") {
    // The low byte is the primary code, the rest says more about it.
    return PRIMARY[(errcode & 0xff) as keyof typeof PRIMARY] ?? "OTHER";
  }
  if (typeof code === "string" && code.startsWith("SQLITE_")) {
    const name = code.split("_")[1] ?? "";
    return NAMES.includes(name) ? (name as SqliteCode) : "OTHER";
  }
  if (code === "ERR_INVALID_STATE" || /connection is not open/.test(error.message)) return "CLOSED";
  return undefined;
}

/** Whether another connection has the lock: the statement did nothing and can be tried again. */
export function isBusy(error: unknown): boolean {
  const code = sqliteCode(error);
  return code === "BUSY" || code === "LOCKED";
}

/** What an error of SQLite is told with. */
export interface SqliteFailure extends ErrorContext {
  /** Path of the database file. */
  readonly file: string;
  /** What was being done, as it stands after "cannot": "acquire a lease". */
  readonly during: string;
  /** Whether COMMIT itself failed: an input/output error then leaves the outcome unknown. */
  readonly committing?: boolean;
}

/**
 * The error of Tenure for what a SQLite library threw. The caller has rolled back.
 *
 * An error of Tenure passes through. One that is neither SQLite's nor ours is told as outcome
 * unknown.
 */
export function explainSqlite(error: unknown, failure: SqliteFailure): TenureError {
  if (error instanceof TenureError) return error;
  const { file, during, committing = false, ...context } = failure;
  const code = sqliteCode(error);
  const text = (what: string): string => `cannot ${during}: ${what} (${file})`;
  const withCause = { ...context, cause: error };
  if (code === undefined || (code === "IOERR" && committing)) {
    const detail = error instanceof Error ? error.message : String(error);
    const hint = code === "IOERR" ? "; check the disk and its free space" : "";
    return new OutcomeUnknownError(text(`the outcome is unknown: ${detail}${hint}`), withCause);
  }
  const [what, retryable] = REASONS[code] ?? [(error as Error).message, true];
  const shown = what === "" ? (error as Error).message : what;
  return new UnavailableError(text(shown), { ...withCause, retryable });
}

type Reason = readonly [what: string, retryable: boolean];

const REASONS: Readonly<Partial<Record<SqliteCode, Reason>>> = {
  BUSY: ["another connection is writing to the SQLite database; try again", true],
  LOCKED: ["another statement of this process locks the SQLite database; try again", true],
  READONLY: [
    "the SQLite database is read-only; make the file and its folder writable for this user",
    false,
  ],
  PERM: ["the file system forbids access to the SQLite database; check the permissions", false],
  FULL: ["the disk or the SQLite database is full; free some space and try again", true],
  IOERR: ["the disk reported an input/output error; check the disk and its free space", true],
  CORRUPT: [
    "the SQLite database is corrupt; move it and its -wal and -shm files away, or restore a backup",
    false,
  ],
  NOTADB: ["the file is not a SQLite database; name another path, or move the file away", false],
  CANTOPEN: [
    "SQLite cannot open the file; check that its folder exists and is writable for this user",
    false,
  ],
  PROTOCOL: ["too many connections race for the SQLite database; try again", true],
  CONSTRAINT: ["a row broke a constraint; the tables were changed by something else", false],
  ERROR: ["", false],
  SCHEMA: ["the tables changed meanwhile; try again", true],
  NOMEM: ["SQLite ran out of memory", true],
  CLOSED: ["the SQLite database is closed", false],
};
