/**
 * What `mysql2` threw, as one of our errors: did the statement certainly not happen, is that
 * unknown, or did it only meet others?
 *
 * A server that answers an error has rolled the statement back, with one exception: a procedure
 * that was interrupted may have committed before. Numbers:
 * https://mariadb.com/docs/server/reference/error-codes and
 * https://dev.mysql.com/doc/mysql-errors/8.0/en/server-error-reference.html
 */
import {
  OutcomeUnknownError,
  TenureError,
  UnavailableError,
  type ErrorContext,
} from "../../core/errors.js";

/** What an error of MySQL is told with. */
export interface MysqlFailure extends ErrorContext {
  /** What was being done, as it stands after "cannot": "acquire a lease". */
  readonly during: string;
  /** Whether nothing had been sent yet. Default false. */
  readonly unsent?: boolean;
}

/** Changed since it was read, lock not free in time, deadlock, lock not free at once. */
const CONTENTION: readonly number[] = [1020, 1205, 1213, 3572];

const NO_PERMISSION = "the user has no permission";
const MISSING =
  "a table or procedure of Tenure is missing; see `tenure migrate --print`, or " +
  "fenceSchemaStatements() of a fence";
const READ_ONLY = "the server is read-only, or its transactions are set to be";
const FULL = "the server's disk is full";
const NO_MEMORY = "the server is out of memory";
const TOO_MANY = "the server has too many connections";

/** Refusals that stay until a person changes something; others pass. */
const STAYING: Readonly<Record<number, string>> = {
  1044: NO_PERMISSION,
  1045: "the server refused user and password",
  1046:
    "no schema is chosen: name a database (mysql://HOST/DATABASE), or one with each table; " +
    "tables of Tenure's own are in the schema that is given as an option",
  1049: "the schema does not exist",
  1054: "a table of Tenure has other columns than this version knows",
  1064: "the server does not understand the statement",
  1142: NO_PERMISSION,
  1143: NO_PERMISSION,
  1146: MISSING,
  1227: NO_PERMISSION,
  1305: MISSING,
  1370: NO_PERMISSION,
  1665: "the binary log is set to statements, which leases cannot use; set it to rows or mixed",
  1698: "the server refused user and password",
};

const PASSING: Readonly<Record<number, string>> = {
  1021: FULL,
  1037: NO_MEMORY,
  1038: NO_MEMORY,
  1040: TOO_MANY,
  1041: NO_MEMORY,
  1047: "the node of the cluster is not ready",
  1114: FULL,
  1203: TOO_MANY,
  1205: "others had a lock for too long",
  1213: "others were faster",
  1226: "the user has reached a limit of the server",
  1290: READ_ONLY,
  1568: "a transaction was left open on a connection of the pool",
  1792: READ_ONLY,
  1836: READ_ONLY,
  4031: "the server ended the session: it was idle for too long",
};

/** Shutdown, killed (1317 the statement, 1927 the connection), out of time. */
const INTERRUPTED: readonly number[] = [1053, 1317, 1927, 1968, 1969, 3024];
/** Other answers that do not say what became of the statement: network, commit. */
const OPEN: readonly number[] = [...INTERRUPTED, 1080, 1152, 1158, 1159, 1160, 1161, 1180, 1184];

/** The server's number of an error; undefined when no server said so. */
export function errorNumber(error: unknown): number | undefined {
  return isServers(error) ? error.errno : undefined;
}

/** The server's SQLSTATE of an error; undefined when no server said so. */
export function sqlState(error: unknown): string | undefined {
  return isServers(error) ? error.sqlState : undefined;
}

/** Whether the statement only met others that were faster: it did nothing and can be repeated. */
export function isContention(error: unknown): boolean {
  return isServers(error) && CONTENTION.includes(error.errno);
}

/**
 * Whether an error of the server is the last word of its session: shut down, killed, idle for too
 * long. It is no answer to a COMMIT.
 */
export function endsSession(error: unknown): boolean {
  return isServers(error) && [1053, 1927, 4031].includes(error.errno);
}

/** Whether the library has closed the connection over this error: no statement can follow. */
export function isFatal(error: unknown): boolean {
  return error instanceof Error && (error as { readonly fatal?: unknown }).fatal === true;
}

/** Whether the server broke off a statement half-way. */
export function wasInterrupted(error: unknown): boolean {
  return isServers(error) && INTERRUPTED.includes(error.errno);
}

/**
 * The error of Tenure for what the library threw. An error of Tenure passes through.
 *
 * A refusal by the server and a connection that was never made did nothing: `UnavailableError`. A
 * connection that broke with the statement under way leaves the outcome open:
 * `OutcomeUnknownError`.
 */
export function explainMysql(error: unknown, failure: MysqlFailure): TenureError {
  if (error instanceof TenureError) return error;
  const { during, unsent = false, ...about } = failure;
  const context = { ...about, cause: error };
  const told = (what: string): string => `cannot ${during}: ${what}`;
  const message = error instanceof Error ? messageOf(error) : String(error);
  const number = errorNumber(error);
  if (number !== undefined && (unsent || !OPEN.includes(number))) {
    const staying = STAYING[number];
    const what = staying ?? PASSING[number] ?? "the server refused";
    return new UnavailableError(told(`${what} (${number}: ${message})`), {
      ...context,
      retryable: staying === undefined,
    });
  }
  if (unsent || wasNeverSent(error)) {
    return new UnavailableError(told(`MySQL cannot be reached: ${message}`), context);
  }
  return new OutcomeUnknownError(told(`the outcome is unknown: ${message}`), context);
}

const CONNECT_CALLS = ["connect", "getaddrinfo"];
/** Errors of `mysql2` for a statement that it did not write to a socket. */
const UNSENT_TEXTS =
  /^Can't (add new command|write)|^Pool is closed|^Queue limit reached|^No connections available/;

function wasNeverSent(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { syscall, errors } = error as { syscall?: unknown; errors?: unknown };
  // Several addresses were tried, and none took the connection.
  if (Array.isArray(errors) && errors.length > 0) return errors.every(wasNeverSent);
  return CONNECT_CALLS.includes(String(syscall)) || UNSENT_TEXTS.test(error.message);
}

interface ServersError extends Error {
  readonly errno: number;
  readonly sqlState: string;
}

/** Errors of Node have a number, too, but below zero and without a state. */
function isServers(error: unknown): error is ServersError {
  if (!(error instanceof Error)) return false;
  const { errno, sqlState: state } = error as Partial<ServersError>;
  return typeof errno === "number" && errno > 0 && typeof state === "string";
}

function messageOf(error: Error): string {
  const { code } = error as { code?: string };
  return error.message === "" ? (code ?? error.name) : error.message;
}
