/**
 * What went wrong between us and DynamoDB, as one of our errors: did the request certainly not
 * happen, or is that unknown?
 *
 * The SDK sends a request again by itself and shows only the last failure. So each attempt is
 * looked at: one that may have been applied makes the whole doubtful, whatever the last one said.
 */
import { OutcomeUnknownError, TenureError, UnavailableError } from "../../core/errors.js";

/** How sure a failed attempt is: `nothing` happened, or it may have, answered or in silence. */
type Certainty = "nothing" | "answered" | "silent";

/** What a failure is told with. */
export interface DynamoFailure {
  /** What was being done, as it stands after "cannot". */
  readonly during: string;
  /** Whether it changes nothing: then an answer that is lost loses nothing. */
  readonly isRead: boolean;
}

/** The parts of an error of the SDK, or of Node below it. */
interface Failed {
  readonly name: string;
  readonly message: string;
  readonly code: string;
  readonly fault: string | undefined;
  readonly status: number | undefined;
  readonly attempts: number;
}

/** The connection was not made: nothing was sent. */
const NOT_CONNECTED: readonly string[] = [
  ...["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "ENETUNREACH", "EHOSTUNREACH"],
];

/** Busy, and saying so before anything was done. */
const THROTTLED: readonly string[] = [
  ...["ProvisionedThroughputExceededException", "ThrottlingException", "Throttling"],
  ...["RequestLimitExceeded", "TooManyRequestsException", "RequestThrottled"],
];

/** Another transaction had the item; nothing was done, and it is worth trying again. */
const CONFLICT = "TransactionConflictException";

const LONGEST_TEXT = 300;

/** The error of a call, from the failures of its attempts; the last is what the SDK threw. */
export function explainDynamo(
  attempts: readonly unknown[],
  { during, isRead }: DynamoFailure,
): TenureError {
  const last = attempts.at(-1);
  // One of ours already: the library is missing.
  if (last instanceof TenureError) return last;
  const failed = readError(last);
  const text = `cannot ${during}: ${explained(failed)}`;
  const context = { backend: "dynamodb", cause: last };
  if (!isRead && certaintyOf(attempts) !== "nothing") return new OutcomeUnknownError(text, context);
  return new UnavailableError(text, { ...context, retryable: isWorthRetrying(failed) });
}

/** Whether every attempt that may have been applied was at least answered: then a look can tell. */
export function isAnsweredDoubt(attempts: readonly unknown[]): boolean {
  return certaintyOf(attempts) === "answered";
}

/** Whether the write was refused because an item is part of a transaction under way. */
export function isConflict(error: unknown): boolean {
  return readError(error).name === CONFLICT;
}

/** The item that failed a condition, where the server tells it; `false` for another error. */
export function failedCondition(error: unknown): { readonly item: unknown } | false {
  if (readError(error).name !== "ConditionalCheckFailedException") return false;
  return { item: (error as { readonly Item?: unknown }).Item };
}

/** Why a transaction was cancelled; `false` for another error. */
export function cancellation(error: unknown): readonly unknown[] | false {
  if (readError(error).name !== "TransactionCanceledException") return false;
  const reasons = (error as { readonly CancellationReasons?: unknown }).CancellationReasons;
  return Array.isArray(reasons) ? (reasons as readonly unknown[]) : [];
}

/** Whether the caller has no right to ask. */
export function isDenied(error: unknown): boolean {
  return readError(error).name === "AccessDeniedException";
}

/** Whether the server does not know the operation: one for tests, or an older one. */
export function isUnknownOperation(error: unknown): boolean {
  return /^(UnknownOperationException|NotImplementedError)$/.test(readError(error).name);
}

function certaintyOf(attempts: readonly unknown[]): Certainty {
  let worst: Certainty = "nothing";
  for (const attempt of attempts) {
    const failed = readError(attempt);
    // Attempts that nobody saw: what became of those before the last is not known.
    const unseen = attempts.length === 1 && failed.attempts > 1;
    const certainty = unseen ? "silent" : certaintyOfOne(failed);
    if (certainty === "silent") return "silent";
    if (certainty === "answered") worst = "answered";
  }
  return worst;
}

function certaintyOfOne({ name, code, status, fault, message }: Failed): Certainty {
  if (NOT_CONNECTED.includes(code)) return "nothing";
  // Asked before anything is sent: no credentials, no region, no such endpoint.
  if (/^(CredentialsProviderError|EndpointError)$/.test(name)) return "nothing";
  if (message === "Region is missing") return "nothing";
  if (THROTTLED.includes(name) || status === 503 || status === 429) return "nothing";
  // The same request is under way, sent by an earlier attempt.
  if (name === "TransactionInProgressException") return "answered";
  if (fault === "client" || (status !== undefined && status >= 400 && status < 500)) {
    return "nothing";
  }
  // A 500 after a write: by Amazon's own page it may have been carried out.
  return status === undefined ? "silent" : "answered";
}

function isWorthRetrying({ name, status, code, message }: Failed): boolean {
  if (THROTTLED.includes(name) || name === CONFLICT || NOT_CONNECTED.includes(code)) return true;
  if (/Credentials|EndpointError/.test(name) || message === "Region is missing") return false;
  return status === undefined || status >= 500 || status === 429;
}

function explained(failed: Failed): string {
  const { name, message, code } = failed;
  if (name === "ResourceNotFoundException") {
    return (
      "there is no such table; `tenure migrate --print --backend dynamodb` prints its definition " +
      `(${message})`
    );
  }
  if (name === "CredentialsProviderError") {
    return `no AWS credentials: set AWS_ACCESS_KEY_ID, AWS_PROFILE or a role (${message})`;
  }
  if (message === "Region is missing") {
    return "no AWS region: name it in the URL (?region=eu-west-1), or set AWS_REGION";
  }
  const said = message || code || "no reason given";
  return /^(Error|TypeError)$/.test(name) ? said : `${said} (${name})`;
}

function readError(error: unknown): Failed {
  const from = (typeof error === "object" && error !== null ? error : {}) as {
    readonly [key: string]: unknown;
  };
  const metadata = (from["$metadata"] ?? {}) as {
    readonly httpStatusCode?: unknown;
    readonly attempts?: unknown;
  };
  const { httpStatusCode: status, attempts } = metadata;
  const text = (value: unknown): string => (typeof value === "string" ? value : "");
  return {
    name: text(from["name"]),
    message: text(from["message"]).slice(0, LONGEST_TEXT),
    code: text(from["code"]),
    fault: text(from["$fault"]) || undefined,
    status: typeof status === "number" ? status : undefined,
    attempts: typeof attempts === "number" ? attempts : 1,
  };
}
