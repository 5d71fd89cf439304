import {
  NotArmedError,
  StaleTokenError,
  SupersededError,
  TokenConflictError,
  TokenScopeError,
  type FenceContext,
  type FenceError,
} from "../core/errors.js";
import type { FenceRuntime, FenceStore, OnStale } from "./contract.js";
import type { FenceRequest, MarkRecord, Refusal, Scope } from "./decide.js";

/** Publishes what was refused, and makes the error that tells it. */
export function refuse(
  at: {
    readonly store: Pick<FenceStore<never>, "kind">;
    readonly runtime: FenceRuntime;
    readonly onStale: OnStale;
  },
  request: FenceRequest,
  refused: { readonly why: Refusal; readonly record: MarkRecord | null },
): FenceError {
  const { why, record } = refused;
  const { events } = at.runtime;
  const about = { name: request.resource, backend: at.store.kind };
  const error = refusalError(at.store.kind, request, why, record);
  const { op: operation, token, holder } = request;
  if (why === "stale" && record !== null) {
    const onStale = operation === "write" ? at.onStale : "reject";
    const mark = record.token;
    events.publish({ type: "stale-write", ...about, token, mark, operation, onStale });
    if (onStale === "log") events.publish({ type: "warning", ...about, message: error.message });
  } else if (why === "conflict" && record !== null) {
    events.publish({ type: "conflict", ...about, token, holder, markHolder: record.holder });
  } else if (why === "unarmed" || why === "scope") {
    events.publish({ type: "warning", ...about, message: error.message });
  }
  return error;
}

function refusalError(
  fence: string,
  request: FenceRequest,
  why: Refusal,
  record: MarkRecord | null,
): FenceError {
  const context: FenceContext = {
    resource: request.resource,
    token: request.token,
    backend: fence,
    lock: request.scope.name,
    ...(record === null ? {} : { mark: { token: record.token, holder: record.holder } }),
  };
  const what = `${request.op} of ${quote(request.resource)} refused`;
  const mine = `token ${request.token}`;
  switch (why) {
    case "stale":
      return new StaleTokenError(`${what}: ${mine} is older than ${record?.token ?? ""}`, context);
    case "conflict":
      return new TokenConflictError(
        `${what}: ${mine} was armed by holder ${quote(record?.holder ?? "")} and now comes from ` +
          `${quote(request.holder)}; the lock store handed one token out twice`,
        context,
      );
    case "superseded":
      return new SupersededError(
        `${what}: arming ${request.arm} of this holder was replaced by arming ${record?.arm ?? 0}`,
        context,
      );
    case "repeated":
      return new SupersededError(
        `${what}: write ${request.n} comes after write ${record?.n ?? 0} of the same arming`,
        context,
      );
    case "unarmed":
      return new NotArmedError(
        `${what}: the resource does not know arming ${request.arm} of ${mine}; its mark was ` +
          `deleted or put back to an older state`,
        context,
      );
    case "scope":
      return new TokenScopeError(scopeMessage(what, request, record), context);
  }
}

function scopeMessage(what: string, request: FenceRequest, record: MarkRecord | null): string {
  const from = record === null ? "nowhere" : formatScope(record.scope);
  const { storeId, name } = request.scope;
  const to = `{ storeId: ${quote(storeId)}, name: ${quote(name)} }`;
  return (
    `${what}: its tokens come from ${from}, this one from ${formatScope(request.scope)}; two ` +
    `locks on one resource protect nothing. If the resource has moved to this lock for good: ` +
    `await fence.rebase(${quote(request.resource)}, { to: ${to}, reason: "…" })`
  );
}

/** A scope as messages and events show it. */
export function formatScope(scope: Scope): string {
  return `lock ${quote(scope.name)} of store ${quote(scope.storeId)}`;
}

function quote(text: string): string {
  return JSON.stringify(text);
}
