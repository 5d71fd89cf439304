/**
 * What a member of etcd refused: an answer about the data, the word of a member that others can
 * do better, or something that a person has to mend. Texts and codes are those of etcd's
 * `rpctypes`, as its JSON gateway passes them on.
 */

/**
 * - `no-lease`: the lease is gone; `compacted`: the revision is. Answers, not errors.
 * - `login`: the token is too old, log in again.
 * - `elsewhere`: this member cannot serve now, and certainly did nothing.
 * - `lost`: this member gave up waiting; it may have happened.
 * - `staying`: refused until somebody changes something. `passing`: refused for now.
 */
export type RefusalKind =
  "no-lease" | "compacted" | "login" | "elsewhere" | "lost" | "staying" | "passing";

export interface Refusal {
  readonly kind: RefusalKind;
  /** For people. */
  readonly what: string;
}

const TEXTS: readonly (readonly [text: RegExp, kind: RefusalKind, what: string])[] = [
  [/requested lease not found/, "no-lease", "the lease is gone"],
  [/required revision has been compacted/, "compacted", "the revision was compacted away"],
  [/invalid auth token|revision of auth store is old/, "login", "the login has expired"],
  [/no leader|leader changed|not leader|no quorum/i, "elsewhere", "the cluster has no leader"],
  [/too many requests/, "elsewhere", "the member has too much to do"],
  [/timed out|stopped|canceled/i, "lost", "the member gave up waiting for the cluster"],
  [
    /database space exceeded/,
    "passing",
    "the database is full (NOSPACE): compact, defragment, disarm",
  ],
  [/authentication failed/, "staying", "the server refused user name and password"],
  [/user name is empty|user name not found/, "staying", "the server wants a user and a password"],
  [/permission denied/, "staying", "the user has no permission"],
  [/authentication is not enabled/, "staying", "a user was given, and the server wants none"],
  [/too many operations/, "staying", "the transaction has more operations than --max-txn-ops"],
  [/HTTP request to an HTTPS server/, "staying", "the member speaks TLS: the URL is etcds://"],
  [/request is too large/, "staying", "the request is larger than --max-request-bytes"],
];
const GRPC_UNAVAILABLE = 14;
const GRPC_UNKNOWN = [1, 2, 4, 13];

/** The refusal in an answer that is none of success. */
export function refusalOf(status: number, text: string): Refusal {
  const { message, code } = errorIn(text);
  const known = TEXTS.find(([pattern]) => pattern.test(message));
  if (known !== undefined) return { kind: known[1], what: `${known[2]} (${message})` };
  if (status === 404) {
    const what = "there is no /v3 gateway: etcd is older than 3.4, or --enable-grpc-gateway is off";
    return { kind: "staying", what };
  }
  const what = `the member answered ${status}: ${message.slice(0, 200)}`;
  if (code === GRPC_UNAVAILABLE || GRPC_UNKNOWN.includes(code) || status >= 500) {
    return { kind: "lost", what };
  }
  return { kind: "staying", what };
}

/** One error is text, another an object: the gateway has had several forms. */
function errorIn(text: string): { readonly message: string; readonly code: number } {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    return { message: text.trim(), code: 0 };
  }
  const { error, message, code } = (json ?? {}) as Record<string, unknown>;
  const inner = (typeof error === "object" && error !== null ? error : {}) as Record<
    string,
    unknown
  >;
  const told = [message, inner["message"], error].find((one) => typeof one === "string") ?? text;
  return { message: String(told), code: Number(code ?? inner["code"] ?? inner["grpc_code"] ?? 0) };
}

/** Whether an answer is an error, also within a stream that began well. */
export function isRefusal(status: number, json: object): boolean {
  return status !== 200 || "error" in json;
}
