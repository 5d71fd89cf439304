/** What ZooKeeper answers when it refuses, and what our own connections run into. */
import {
  OutcomeUnknownError,
  TenureError,
  UnavailableError,
  type ErrorContext,
} from "../../core/errors.js";

/** Codes of answers that we tell apart. Source: `KeeperException.Code`. */
export const ZK = {
  unimplemented: -6,
  badArguments: -8,
  noNode: -101,
  noAuth: -102,
  badVersion: -103,
  noChildrenForEphemerals: -108,
  nodeExists: -110,
  notEmpty: -111,
  sessionExpired: -112,
  invalidAcl: -114,
  authFailed: -115,
  sessionMoved: -118,
  notReadOnly: -119,
  quotaExceeded: -125,
  throttled: -127,
} as const;

const NAMES: ReadonlyMap<number, string> = new Map(
  Object.entries(ZK).map(([name, code]) => [code, name]),
);

const WORDS: Readonly<Record<number, string>> = {
  [ZK.unimplemented]: "the server does not know this request: ZooKeeper 3.5.3 or later is needed",
  [ZK.noNode]: "there is no such node",
  [ZK.noAuth]: "no permission: the node belongs to other credentials",
  [ZK.badVersion]: "the node has changed",
  [ZK.nodeExists]: "the node exists",
  [ZK.notEmpty]: "the node has children",
  [ZK.noChildrenForEphemerals]: "an ephemeral node takes no children",
  [ZK.invalidAcl]: "the access list is not valid: creator-only nodes need credentials",
  [ZK.authFailed]: "the server refused the credentials",
  [ZK.quotaExceeded]: "a quota is used up",
};

/** The server did not do it, and says why. */
export class ZookeeperReplyError extends Error {
  readonly code: number;
  /** Which change of a transaction was refused, from 0; undefined for a request of one. */
  readonly place: number | undefined;

  constructor(code: number, place?: number) {
    const name = NAMES.get(code);
    const words = WORDS[code] ?? "the server refused";
    super(`${words} (${name === undefined ? "" : `${name} `}${code})`);
    this.name = "ZookeeperReplyError";
    this.code = code;
    this.place = place;
  }
}

/**
 * The answer will not come: the connection ended. `sent` is false for a request that never left,
 * and so was not carried out.
 */
export class ConnectionLostError extends Error {
  readonly sent: boolean;

  constructor(why: string, sent: boolean) {
    super(why);
    this.name = "ConnectionLostError";
    this.sent = sent;
  }
}

/** The server said that the session is over, and with it all its nodes. */
export class SessionGoneError extends Error {
  constructor() {
    super("the session has ended");
    this.name = "SessionGoneError";
  }
}

/** Whether the server answered with this code. */
export function isReply(error: unknown, code: number): error is ZookeeperReplyError {
  return error instanceof ZookeeperReplyError && error.code === code;
}

/** Whether an answer is about the connection or the session, and not about the request. */
export function isOfSession(error: unknown): boolean {
  return (
    error instanceof ConnectionLostError ||
    isReply(error, ZK.sessionExpired) ||
    isReply(error, ZK.sessionMoved)
  );
}

/** Answers that stay as they are until a person changes something. */
const STAYING: readonly number[] = [
  ZK.unimplemented,
  ZK.badArguments,
  ZK.noAuth,
  ZK.invalidAcl,
  ZK.authFailed,
  ZK.noChildrenForEphemerals,
];

/**
 * The error of Tenure for what went wrong: `UnavailableError` where nothing happened for certain,
 * else `OutcomeUnknownError`.
 */
function explainZookeeper(
  error: unknown,
  failure: ErrorContext & { readonly during: string },
): TenureError {
  if (error instanceof TenureError) return error;
  const { during, ...about } = failure;
  const context = { ...about, cause: error };
  const text = `cannot ${during}: ${error instanceof Error ? error.message : String(error)}`;
  if (error instanceof ZookeeperReplyError) {
    const retryable = !STAYING.includes(error.code);
    return new UnavailableError(text, { ...context, retryable });
  }
  if (error instanceof SessionGoneError) return new UnavailableError(text, context);
  if (error instanceof ConnectionLostError && !error.sent) {
    return new UnavailableError(text, context);
  }
  return new OutcomeUnknownError(text, context);
}

/** What a backend or a fence wants to know of errors. */
export const zookeeperFaults: {
  readonly explain: typeof explainZookeeper;
  /** Whether the request may have been carried out: its answer was lost. */
  readonly isLost: (error: unknown) => boolean;
  /** Whether the session has ended, and with it its nodes. */
  readonly isGone: (error: unknown) => boolean;
  /** Whether the server forbids it to this user. */
  readonly isForbidden: (error: unknown) => boolean;
} = {
  explain: explainZookeeper,
  isLost: (error) => error instanceof ConnectionLostError && error.sent,
  isGone: (error) => error instanceof SessionGoneError,
  isForbidden: (error) => isReply(error, ZK.noAuth),
};
