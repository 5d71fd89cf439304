/** The fence inside a transaction that the caller has begun. */
import { ArgumentTypeError } from "../../core/errors.js";
import type { ArmedHandle } from "../contract.js";
import { decide, type FenceRequest, type MarkRecord } from "../decide.js";
import { recordFromJson } from "../record.js";
import { NOT_ARMED_STATE } from "./schema.js";

/** Runs one statement in the caller's transaction. Each `$n` stands once in the text, in order. */
export type RunSql = (text: string, values: unknown[]) => PromiseLike<unknown>;

/**
 * A transaction of the caller's: a client of `pg` after BEGIN, what `postgres` hands to `begin`, or
 * a function that runs one statement in it, for query builders.
 */
export type CallersTransaction =
  | { query(text: string, values?: unknown[]): PromiseLike<unknown> }
  | { unsafe(text: string, values?: never[]): PromiseLike<unknown> }
  | RunSql;

const NO_TRANSACTION_STATE = "25P01";

/** How to run a statement in it. @throws TypeError for anything else. */
export function runnerOf(transaction: CallersTransaction): RunSql {
  const given = transaction as { unsafe?: unknown; query?: unknown } | null | undefined;
  if (typeof given?.unsafe === "function") {
    const { unsafe } = given;
    return (text, values) => (unsafe as RunSql).call(given, text, values);
  }
  if (typeof given?.query === "function") {
    if ("totalCount" in given) throw notATransaction(given);
    const { query } = given;
    return (text, values) => (query as RunSql).call(given, text, values);
  }
  if (typeof given === "function") return given;
  throw notATransaction(given);
}

function notATransaction(given: unknown): ArgumentTypeError {
  return new ArgumentTypeError(
    "transaction",
    given,
    "a client in a transaction, or a function that runs a statement in one; not a pool",
  );
}

/** @throws TypeError outside a transaction, where the proof would end with the statement. */
export async function checkInside(run: RunSql, given: CallersTransaction): Promise<void> {
  try {
    // Of all statements that are refused there, the one that needs no rights.
    await run("SAVEPOINT tenure_fence", []);
  } catch (error) {
    if (!inside(error).some(({ code }) => code === NO_TRANSACTION_STATE)) throw error;
    const must =
      "unsafe" in given
        ? "what sql.begin hands to its function, not sql itself"
        : "in a transaction: BEGIN first";
    throw new ArgumentTypeError("transaction", given, must);
  }
  await run("RELEASE SAVEPOINT tenure_fence", []);
}

interface ServersError extends Error {
  readonly code?: unknown;
  readonly detail?: unknown;
}

/** An error and its causes: those of query builders carry the server's inside. */
function inside(error: unknown): readonly ServersError[] {
  return error instanceof Error ? [error, ...inside(error.cause)] : [];
}

/** What was refused, if that is what an error says. */
export function refusalIn(
  error: unknown,
  handle: ArmedHandle<unknown, unknown, never>,
): { readonly request: FenceRequest; readonly verdict: ReturnType<typeof decide> } | undefined {
  for (const { code, detail } of inside(error)) {
    if (code !== NOT_ARMED_STATE || typeof detail !== "string") continue;
    const json: unknown = JSON.parse(detail);
    const record: MarkRecord | null = json === null ? null : recordFromJson(json);
    const { resource, scope, token, holder, arm } = handle;
    const request: FenceRequest = { op: "read", resource, scope, token, holder, arm, n: 0 };
    return { request: { ...request, op: "write" }, verdict: decide(record, request) };
  }
  return undefined;
}
