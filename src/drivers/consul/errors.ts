/**
 * What went wrong between us and an agent, as one of our errors: did the request certainly not
 * happen, or is that unknown?
 */
import { OutcomeUnknownError, type TenureError, UnavailableError } from "../../core/errors.js";

/** What a failure is told with. */
export interface ConsulFailure {
  /** What was being done, as it stands after "cannot": "acquire a lease". */
  readonly during: string;
  /** Whether it changes nothing: then an answer that is lost loses nothing. */
  readonly isRead: boolean;
}

/** Answers of a server that did not pass the request on to its log. */
const NOT_DONE =
  /no cluster leader|node is not the leader|no known consul servers|failed to get conn|rpc error getting client|raft is already shutdown|rate limit|missing node registration/i;

/** What the ACL system says, also within a transaction's errors. */
export const DENIED: RegExp = /^(rpc error making call: )*(permission denied|ACL not found)/i;

const LONGEST_TEXT = 300;

/** The connection failed. `isSent`: whether the agent may have the request. */
export function explainBroken(
  error: unknown,
  isSent: boolean,
  { during, isRead }: ConsulFailure,
  hint = "",
): TenureError {
  const why = error instanceof Error ? error.message || codeOf(error) : String(error);
  const context = { backend: "consul", cause: error };
  const what = `${why}${hint}`;
  if (!isSent) return new UnavailableError(`cannot ${during}: no connection: ${what}`, context);
  const text = `cannot ${during}: the connection broke: ${what}`;
  return isRead ? new UnavailableError(text, context) : new OutcomeUnknownError(text, context);
}

/** No answer in time, or nobody waits for it any more. */
export function explainSilence(isSent: boolean, failure: ConsulFailure, hint = ""): TenureError {
  const text = `cannot ${failure.during}: no answer in time${hint}`;
  const context = { backend: "consul" };
  return failure.isRead || !isSent
    ? new UnavailableError(text, context)
    : new OutcomeUnknownError(text, context);
}

/** An answer that says that something is wrong. `status` is that of HTTP. */
export function explainAnswer(
  status: number,
  body: string,
  { during, isRead }: ConsulFailure,
): TenureError {
  const said = body.trim().slice(0, LONGEST_TEXT);
  if (status === 401 || status === 403 || DENIED.test(said)) return explainDenied(said, during);
  const hint = /HTTP request to an HTTPS server/.test(said) ? " The URL is consuls://." : "";
  const text = `cannot ${during}: ${said || "no reason given"}${hint} (HTTP ${status})`;
  const context = { backend: "consul" };
  if (status === 429 || NOT_DONE.test(said)) return new UnavailableError(text, context);
  // A request that is wrong in itself stays wrong.
  if (status < 500) return new UnavailableError(text, { ...context, retryable: false });
  return isRead ? new UnavailableError(text, context) : new OutcomeUnknownError(text, context);
}

/** The ACL system refused. */
export function explainDenied(said: string, during: string): UnavailableError {
  const text = `cannot ${during}: the ACL token is missing, unknown or may not do this: ${said}`;
  return new UnavailableError(text, { backend: "consul", retryable: false });
}

function codeOf(error: Error): string {
  const { code } = error as { code?: unknown };
  return typeof code === "string" ? code : error.name;
}
