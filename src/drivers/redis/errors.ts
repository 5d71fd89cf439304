/**
 * What a Redis client library threw, as one of our errors: did the command certainly not happen, or
 * is that unknown?
 */
import {
  OutcomeUnknownError,
  TenureError,
  UnavailableError,
  type ErrorContext,
} from "../../core/errors.js";
import { isUntrusted, tlsHint, type TlsNames } from "../tls-hint.js";

/** What an error of Redis is told with. */
export interface RedisFailure extends ErrorContext {
  /** What was being done, as it stands after "cannot": "acquire a lease". */
  readonly during: string;
}

/** Refusals that pass: the server does not serve now, and did nothing. */
const PASSING = {
  READONLY: "the server is a read-only replica",
  LOADING: "the server is loading its data",
  CLUSTERDOWN: "the cluster is down",
  MASTERDOWN: "the replica has lost its primary",
  MISCONF: "the server cannot write to its disk and refuses changes",
  OOM: "the server is out of memory",
  TRYAGAIN: "the cluster is moving the key",
  MOVED: "the cluster has moved the key",
  ASK: "the cluster is moving the key",
  NOREPLICAS: "the server has too few replicas",
  BUSY: "the server is busy running a script",
} as const;

/** Refusals that stay until a person changes something. */
const STAYING = {
  WRONGTYPE: "a key of Tenure's holds a value of another type: something else writes it",
  CROSSSLOT: "keys of one name are in different slots of the cluster",
  NOAUTH: "the server wants a password",
  WRONGPASS: "the server refused user name and password",
  NOPERM: "the user has no permission",
  DENIED: "the server refuses connections from other machines",
} as const;

/**
 * The error of Tenure for what a client library threw. An error of Tenure passes through.
 *
 * A refusal by the server and a connection that was never made did nothing: `UnavailableError`. A
 * connection that broke with the command under way, and whatever is not known here, leaves the
 * outcome open: `OutcomeUnknownError`.
 */
export function explainRedis(error: unknown, failure: RedisFailure): TenureError {
  if (error instanceof TenureError) return error;
  const { during, ...about } = failure;
  const context = showsCredentials(error) ? about : { ...about, cause: error };
  const told = (what: string): string => `cannot ${during}: ${what}`;
  const code = replyCode(error);
  if (code !== undefined && code in PASSING) {
    const what = PASSING[code as keyof typeof PASSING];
    return new UnavailableError(told(`${what} (${code})`), context);
  }
  if (code !== undefined && code in STAYING) {
    const what = STAYING[code as keyof typeof STAYING];
    return new UnavailableError(told(`${what} (${code})`), { ...context, retryable: false });
  }
  const message = error instanceof Error ? error.message : String(error);
  if (wasNeverSent(error)) {
    const reason = message === "" ? ((error as { code?: string }).code ?? "no reason") : message;
    return new UnavailableError(told(`Redis cannot be reached: ${reason}`), context);
  }
  return new OutcomeUnknownError(told(`the outcome is unknown: ${message}`), context);
}

const TLS: TlsNames = {
  plain: "redis://",
  secure: "rediss://",
  authority: "NODE_EXTRA_CA_CERTS, or pass a client with settings of its own",
};

/**
 * The error of Tenure for a connection that was not made. Nothing was asked of the server by then,
 * so nothing is unknown. `withTls`: what the URL asked for, where there is one.
 */
export function explainConnecting(error: unknown, withTls: boolean | undefined): TenureError {
  const during = "connect to Redis";
  const told = explainRedis(error, { during, backend: "redis" });
  const { code } = error as { code?: string };
  const wasClosed = told instanceof OutcomeUnknownError;
  const wasSilent = code === "ETIMEDOUT" || className(error) === "ConnectionTimeoutError";
  const hint = withTls === undefined ? "" : tlsHint({ code, wasSilent, wasClosed }, withTls, TLS);
  if (!wasClosed && hint === "") return told;
  const text = error instanceof Error ? error.message : String(error);
  const context = { backend: "redis", cause: told.cause, retryable: !isUntrusted(code) };
  return new UnavailableError(`cannot ${during}: Redis cannot be reached: ${text}${hint}`, context);
}

/** Whether the server answered with an error of this code. */
export function isReply(error: unknown, code: string): boolean {
  return replyCode(error) === code;
}

const KNOWN_CODES = Object.keys({ ...PASSING, ...STAYING, NOSCRIPT: "" }).join("|");
const LEADING = new RegExp(`^-?(${KNOWN_CODES})\\b`);
/**
 * Servers before Redis 7 report the error of a command in a script inside their own text, and put
 * the line before it where the script itself has caught it.
 */
const IN_SCRIPT = new RegExp(
  `^(?:ERR Error running script.*: |@user_script: ?\\d+: )-?(${KNOWN_CODES})\\b`,
);

function replyCode(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined;
  return (LEADING.exec(error.message) ?? IN_SCRIPT.exec(error.message))?.[1];
}

const CONNECT_CALLS = ["connect", "getaddrinfo"];

/** Errors of the libraries for a command that they did not write to a socket, by class. */
const UNSENT_CLASSES = [
  "ClientClosedError",
  "ClientOfflineError",
  "ConnectionTimeoutError",
  "RootNodesUnavailableError",
  // Of node-redis, and about the time in its queue only.
  "TimeoutError",
  "CommandTimeoutDuringMaintenanceError",
  "ClusterAllFailedError",
];

const UNSENT_TEXTS =
  /enableOfflineQueue options is false|^The queue is full|^connect E|startup nodes|is disconnected/;

function wasNeverSent(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { syscall, errors } = error as { syscall?: unknown; errors?: unknown };
  // Several addresses were tried, and none took the connection.
  if (Array.isArray(errors) && errors.length > 0) return errors.every(wasNeverSent);
  if (CONNECT_CALLS.includes(String(syscall))) return true;
  return UNSENT_CLASSES.includes(className(error)) || UNSENT_TEXTS.test(error.message);
}

/** By which an error of a library is known that is not loaded here. */
export const className = (error: unknown): string => (error as object).constructor.name;

/** ioredis hangs the command on the error, and the command may be AUTH with the password. */
function showsCredentials(error: unknown): boolean {
  const name = (error as { command?: { name?: unknown } } | null)?.command?.name;
  return typeof name === "string" && /^(auth|hello)$/i.test(name);
}
