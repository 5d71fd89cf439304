/**
 * What a Postgres client library threw, as one of our errors: did the statement certainly not
 * happen, is that unknown, or did it only meet others?
 *
 * A server that answers an error has rolled the statement back, whatever the error. Codes:
 * https://www.postgresql.org/docs/current/errcodes-appendix.html
 */
import {
  OutcomeUnknownError,
  TenureError,
  UnavailableError,
  type ErrorContext,
} from "../../core/errors.js";

/** What an error of Postgres is told with. */
export interface PostgresFailure extends ErrorContext {
  /** What was being done, as it stands after "cannot": "acquire a lease". */
  readonly during: string;
  /** Whether nothing had been sent yet. Default false. */
  readonly unsent?: boolean;
}

/** What `pg` says, by itself, when the server asks for a password and it has none. */
const NO_PASSWORD = /client password must be a (non-empty )?string/;

/** Serialization failure, deadlock, lock not available in time. */
const CONTENTION: readonly string[] = ["40001", "40P01", "55P03"];

/** What is missing, and where the SQL for it is. */
const missing = (what: string): string =>
  `a ${what} of Tenure is missing; see \`tenure migrate --print\`, or fenceSchemaSql() of a fence`;

/** Refusals that stay until a person changes something; others pass. */
const STAYING: Readonly<Record<string, string>> = {
  "42P01": missing("table"),
  "3F000": missing("schema"),
  "42883": missing("function"),
  "42703": "a table of Tenure has other columns than this version knows",
  "42501": "the user has no permission",
  "28P01": "the server refused user name and password",
  "28000": "the server refused the user",
  "3D000": "the database does not exist",
  "0A000": "the server does not support it",
};

const PASSING: Readonly<Record<string, string>> = {
  "25006": "the server is a read-only standby, or its transactions are set to be read-only",
  "53300": "the server has too many connections",
  "53100": "the server's disk is full",
  "53200": "the server is out of memory",
  "57014": "the server cancelled the statement: it took longer than its time-out allows",
  "57P01": "the server ended the session",
  "57P02": "the server is recovering from a crash",
  "57P03": "the server is starting up or shutting down",
  "57P05": "the server ended the session: it was idle for too long",
};

/**
 * Answers that do not say what became of the statement: a pooler whose server went away answers
 * with a protocol error (08P01), too.
 */
const OPEN = /^(08|40003$)/;

/** The server's code of an error; undefined when no server said so. */
export function sqlState(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  const { code, severity } = error as { code?: unknown; severity?: unknown };
  // Codes of Node's own can look the same: EPIPE.
  return typeof severity === "string" && typeof code === "string" ? code : undefined;
}

/** Ends of a session: shut down or killed, idle for too long in a transaction, or at all. */
const END_OF_SESSION = /^(57P0|25P0[34])/;

/**
 * Whether an error of the server is the last word of its session. After a COMMIT it does not say
 * what became of it: a session that is ended while it waits for a standby has committed.
 */
export function endsSession(error: unknown): boolean {
  const { severity } = (error ?? {}) as { severity?: unknown };
  const code = sqlState(error);
  // The severity may be in the server's language.
  return code !== undefined && (/^(FATAL|PANIC)$/.test(String(severity)) || END_OF_SESSION.test(code));
}

/** Whether the statement only met others that were faster: it did nothing and can be repeated. */
export function isContention(error: unknown): boolean {
  const code = sqlState(error);
  return code !== undefined && CONTENTION.includes(code);
}

/**
 * The error of Tenure for what a client library threw. An error of Tenure passes through.
 *
 * A refusal by the server and a connection that was never made did nothing: `UnavailableError`. A
 * connection that broke with the statement under way leaves the outcome open:
 * `OutcomeUnknownError`.
 */
export function explainPostgres(error: unknown, failure: PostgresFailure): TenureError {
  if (error instanceof TenureError) return error;
  const { during, unsent = false, ...about } = failure;
  const context = { ...about, cause: error };
  const told = (what: string): string => `cannot ${during}: ${what}`;
  const message = error instanceof Error ? messageOf(error) : String(error);
  const code = sqlState(error);
  if (code !== undefined && (unsent || !OPEN.test(code))) {
    const isStandby = refusesToWrite(error);
    const staying = isStandby ? undefined : STAYING[code];
    const what = staying ?? PASSING[isStandby ? "25006" : code] ?? "the server refused";
    return new UnavailableError(told(`${what} (${code}: ${message})`), {
      ...context,
      retryable: staying === undefined,
    });
  }
  if (NO_PASSWORD.test(message)) {
    const what = "the server wants a password, and none was given";
    return new UnavailableError(told(`${what} (${message})`), { ...context, retryable: false });
  }
  if (unsent || wasNeverSent(error)) {
    return new UnavailableError(told(`Postgres cannot be reached: ${message}`), context);
  }
  return new OutcomeUnknownError(told(`the outcome is unknown: ${message}`), context);
}

/** A standby that was asked for READ WRITE answers with the code for what no server supports. */
function refusesToWrite(error: unknown): boolean {
  const { routine } = (error ?? {}) as { readonly routine?: unknown };
  return sqlState(error) === "0A000" && routine === "call_bool_check_hook";
}

const CONNECT_CALLS = ["connect", "getaddrinfo"];
/** Errors of `postgres` for a statement that it did not write to a socket. */
const UNSENT_CODES = ["CONNECT_TIMEOUT", "CONNECTION_ENDED"];
/** Errors of `pg` for the same. */
const UNSENT_TEXTS =
  /^Client (was closed|has encountered a connection error) and is not queryable|^Cannot use a pool/;

function wasNeverSent(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { syscall, code, errors } = error as {
    syscall?: unknown;
    code?: unknown;
    errors?: unknown;
  };
  // Several addresses were tried, and none took the connection.
  if (Array.isArray(errors) && errors.length > 0) return errors.every(wasNeverSent);
  if (CONNECT_CALLS.includes(String(syscall)) || UNSENT_CODES.includes(String(code))) return true;
  return UNSENT_TEXTS.test(error.message);
}

function messageOf(error: Error): string {
  const { code } = error as { code?: string };
  return error.message === "" ? (code ?? error.name) : error.message;
}
