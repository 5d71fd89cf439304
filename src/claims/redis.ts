/**
 * Claims in Redis. Each call is one Lua script; time is the server's.
 *
 * Not promised: more than the server itself. Without `appendfsync always` a crash, and with
 * asynchronous replication a failover, can take back a claim that was answered, and then another
 * caller gets the key too. An eviction policy of the kind `allkeys-` does the same.
 */
import type { Timers } from "../core/clock.js";
import { OutcomeUnknownError, type TenureError } from "../core/errors.js";
import { checkName } from "../core/names.js";
import { toToken } from "../core/token.js";
import { checkBody, checkClaim, checkLease, checkPage, checkReason } from "./arguments.js";
import type { Claim, ClaimRecord, ClaimState, LeaseOption, LoneClaims } from "./contract.js";
import { ADD, CLAIM, END, INSPECT, LIST, NEXT, STORE_ID } from "./redis-scripts.js";
import { superseded } from "./refusal.js";

/** A reply of a script. */
export type Reply = string | number | null | readonly Reply[];

/** What claims in Redis are made of. */
export interface RedisParts {
  /** Runs a script. */
  readonly evaluate: (
    script: string,
    keys: readonly string[],
    args: readonly string[],
  ) => Promise<Reply>;
  readonly explain: (error: unknown, failure: { during: string; backend: string }) => TenureError;
  readonly timers: Timers;
  newId(): string;
  /** Beginning of all keys, without a hash tag. */
  readonly prefix: string;
  /** Longest wait for an answer. */
  readonly timeoutMs: number;
  close(): Promise<void>;
}

const BACKEND = "redis";

/** Claims in Redis, once the server has answered. */
export async function redisClaims(parts: RedisParts): Promise<LoneClaims> {
  const storeId = await ask(parts, "open the claims", STORE_ID, [parts.newId()]);
  return new RedisClaims(parts, String(storeId));
}

class RedisClaims implements LoneClaims {
  readonly storeId: string;
  readonly #parts: RedisParts;

  constructor(parts: RedisParts, storeId: string) {
    this.#parts = parts;
    this.storeId = storeId;
  }

  claim(key: string, owner: string): Promise<boolean>;
  claim(key: string, owner: string, options: LeaseOption): Promise<Claim | null>;
  async claim(key: string, owner: string, options?: LeaseOption): Promise<boolean | Claim | null> {
    const leaseMs = checkLease(options);
    const claim = await this.#take(CLAIM, [checkName(key, "key")], owner, leaseMs);
    return leaseMs === null ? claim !== null : claim;
  }

  async next(owner: string, options?: LeaseOption): Promise<Claim | null> {
    return await this.#take(NEXT, [], owner, checkLease(options));
  }

  async add(key: string, body?: unknown): Promise<boolean> {
    const args = [checkName(key, "key"), checkBody(body) ?? ""];
    return (await ask(this.#parts, "add a key", ADD, args)) === 1;
  }

  complete(claim: unknown): Promise<void> {
    return this.#end(claim, "done", undefined);
  }

  fail(claim: unknown, reason?: string): Promise<void> {
    return this.#end(claim, "failed", reason);
  }

  async inspect(key: string): Promise<ClaimRecord | null> {
    const reply = await ask(this.#parts, "look at a claim", INSPECT, [checkName(key, "key")]);
    return reply === null ? null : recordOf(reply);
  }

  async list(options: unknown = {}): Promise<readonly ClaimRecord[]> {
    const { after, state, limit } = checkPage(options);
    const page = await ask(this.#parts, "list claims", LIST, [after, state ?? "", String(limit)]);
    return (page as readonly Reply[]).map(recordOf);
  }

  close(): Promise<void> {
    return this.#parts.close();
  }

  async #take(
    script: string,
    which: readonly string[],
    owner: string,
    leaseMs: number | null,
  ): Promise<Claim | null> {
    const holder = this.#parts.newId();
    const args = [...which, checkName(owner, "owner"), holder, String(leaseMs ?? "")];
    const reply = await ask(this.#parts, "claim a key", script, args);
    if (reply === null) return null;
    const [key, token, body] = reply as readonly (string | null)[];
    return {
      key: key!,
      name: key!,
      owner,
      holder,
      token: toToken(BigInt(token!)),
      storeId: this.storeId,
      leaseMs,
      body: body === null || body === undefined ? null : JSON.parse(body),
    };
  }

  async #end(claim: unknown, state: "done" | "failed", reason: unknown): Promise<void> {
    const meant = checkClaim(claim);
    const { key, owner, token, holder } = meant;
    const args = [key, state, owner, String(token ?? ""), holder ?? "", checkReason(reason) ?? ""];
    const reply = await ask(this.#parts, "end a claim", END, args);
    if (reply === 1) return;
    throw superseded(meant, reply === null ? null : recordOf(reply), BACKEND);
  }
}

function recordOf(reply: Reply): ClaimRecord {
  const [key, state, owner, holder, token, left, reason, body] = reply as (string | null)[];
  return {
    key: key!,
    state: state as ClaimState,
    owner: owner ?? null,
    holder: holder ?? null,
    token: token === null || token === undefined ? null : BigInt(token),
    leaseLeftMs: left === null || left === undefined ? null : Number(left),
    reason: reason ?? null,
    body: body === null || body === undefined ? null : JSON.parse(body),
  };
}

/** One script, and its answer no later than the time-out. */
async function ask(
  { prefix, evaluate, explain, timers, timeoutMs }: RedisParts,
  during: string,
  script: string,
  args: readonly string[],
): Promise<Reply> {
  return await new Promise<Reply>((resolve, reject) => {
    const context = { during, backend: BACKEND };
    const timer = timers.after(timeoutMs, () => {
      const message = `cannot ${during}: no answer within ${timeoutMs} ms`;
      reject(new OutcomeUnknownError(message, { backend: BACKEND }));
    });
    evaluate(script, [`${prefix}{claims}:`], args)
      .then(resolve, (error: unknown) => reject(explain(error, context)))
      .finally(() => timer.cancel());
  });
}
