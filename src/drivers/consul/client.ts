/**
 * What Tenure asks of Consul, and how the answers are read. All reads are `consistent`: the leader
 * makes sure that it still leads before it answers.
 */
import { OutcomeUnknownError, UnavailableError } from "../../core/errors.js";
import { DENIED, explainAnswer, explainDenied, type ConsulFailure } from "./errors.js";
import { formatExact, parseExact } from "./exact-json.js";
import type { Bounds, ConsulHttp, HttpReply, HttpRequest, Lane } from "./http.js";

/** A key as the store has it. */
export interface ConsulEntry {
  readonly key: string;
  readonly value: Uint8Array;
  /** Session that holds it, where one does. */
  readonly session: string | undefined;
  /** `ModifyIndex`: index in the log of the servers of the last change. */
  readonly index: bigint;
}

/** One operation of a transaction. https://developer.hashicorp.com/consul/api-docs/txn */
export type ConsulOp =
  | { readonly verb: "set"; readonly key: string; readonly value: string | Uint8Array }
  | {
      readonly verb: "cas";
      readonly key: string;
      readonly value: string | Uint8Array;
      readonly index: bigint;
    }
  | {
      readonly verb: "lock";
      readonly key: string;
      readonly value: string | Uint8Array;
      readonly session: string;
    }
  | { readonly verb: "get" | "delete" | "delete-tree" | "check-not-exists"; readonly key: string }
  | { readonly verb: "check-index"; readonly key: string; readonly index: bigint }
  | { readonly verb: "check-session"; readonly key: string; readonly session: string };

/** Why a transaction did nothing: the place of an operation, and the server's words about it. */
export interface Refusal {
  readonly op: number;
  readonly what: string;
}

/** What came of a transaction. */
export type TxnAnswer =
  { readonly done: readonly ConsulEntry[] } | { readonly refused: readonly Refusal[] };

/** What a call is bounded and told by. */
export interface ConsulCall extends Bounds {
  /** What is being done, as it stands after "cannot". */
  readonly during: string;
  /** Default `commands`. */
  readonly lane?: Lane;
}

/** Settings of a session. https://developer.hashicorp.com/consul/api-docs/session */
export interface SessionSettings {
  readonly ttlMs: number;
  readonly lockDelayMs: number;
}

interface Json {
  readonly [field: string]: unknown;
}

const WRITES: readonly string[] = ["set", "cas", "lock", "delete", "delete-tree"];
/** A read of many keys is repeated without those that are missing; each time some are fewer. */
const READ_TRIES = 8;
const MISSING = /doesn't exist$/;
const EXISTS = /" exists$/;

/** A client of one agent. Its methods throw `UnavailableError` or `OutcomeUnknownError`. */
export class ConsulClient {
  readonly #http: ConsulHttp;

  constructor(connection: ConsulHttp) {
    this.#http = connection;
  }

  /** All or nothing, in one step of the log; `refused` is an answer. At most 64 operations. */
  async txn(ops: readonly ConsulOp[], call: ConsulCall): Promise<TxnAnswer> {
    const isRead = !ops.some(({ verb }) => WRITES.includes(verb));
    const reply = await this.#send(call, {
      method: "PUT",
      // Only reads heed it: a transaction that writes is ordered by the log.
      path: isRead ? "/v1/txn?consistent" : "/v1/txn",
      body: formatExact(ops.map(toWire)),
      isRead,
      accept: [409],
    });
    const { Results: results, Errors: errors } = fields(parse(reply, { ...call, isRead }));
    if (reply.status === 200)
      return { done: list(results).map((one) => toEntry(fields(one)["KV"])) };
    const refused = list(errors).map((one) => {
      const { OpIndex: op, What: what } = fields(one);
      return { op: Number(op), what: String(what) };
    });
    const denied = refused.find(({ what }) => DENIED.test(what));
    if (denied !== undefined) throw explainDenied(denied.what, call.during);
    if (refused.length === 0) throw explainAnswer(500, reply.body, { ...call, isRead });
    return { refused };
  }

  /** The keys as they were at one moment, in the order given; undefined for a missing one. */
  async read(
    keys: readonly string[],
    call: ConsulCall,
  ): Promise<readonly (ConsulEntry | undefined)[]> {
    const missing = new Set<number>();
    for (let tries = 0; tries < READ_TRIES; tries++) {
      const ops = keys.map((key, place): ConsulOp => {
        return { verb: missing.has(place) ? "check-not-exists" : "get", key };
      });
      const answer = await this.txn(ops, call);
      if ("done" in answer) return arrange(keys, answer.done, missing, call.during);
      for (const { op, what } of answer.refused) {
        if (MISSING.test(what)) missing.add(op);
        else if (EXISTS.test(what)) missing.delete(op);
        else throw explainAnswer(400, what, { ...call, isRead: true });
      }
    }
    const text = `cannot ${call.during}: its keys came and went while they were read`;
    throw new UnavailableError(text, { backend: "consul" });
  }

  /** All entries whose keys begin with `prefix`. */
  async tree(prefix: string, call: ConsulCall): Promise<readonly ConsulEntry[]> {
    const path = `/v1/kv/${toPath(prefix)}?recurse&consistent`;
    const reply = await this.#send(call, { method: "GET", path, isRead: true, accept: [404] });
    return reply.status === 404 ? [] : list(parse(reply, { ...call, isRead: true })).map(toEntry);
  }

  /**
   * The entry of a key, and the index to wait from. With `since` it answers once the key has
   * changed, or after `waitMs`; also sometimes for no reason. Not `consistent`.
   */
  async watch(
    key: string,
    since: { readonly index: bigint; readonly waitMs: number } | undefined,
    call: ConsulCall,
  ): Promise<{ readonly entry: ConsulEntry | undefined; readonly index: bigint }> {
    const query = since === undefined ? "" : `?index=${since.index}&wait=${since.waitMs}ms`;
    const path = `/v1/kv/${toPath(key)}${query}`;
    const reply = await this.#send(call, { method: "GET", path, isRead: true, accept: [404] });
    const [entry] =
      reply.status === 404 ? [] : list(parse(reply, { ...call, isRead: true })).map(toEntry);
    return { entry, index: reply.index ?? 0n };
  }

  /** Opens a session that only its TTL ends, whatever the health of the agent. */
  async openSession({ ttlMs, lockDelayMs }: SessionSettings, call: ConsulCall): Promise<string> {
    const body = JSON.stringify({
      Name: "tenure",
      TTL: `${ttlMs}ms`,
      // A number would be read as seconds when it is small, and as nanoseconds when it is not.
      LockDelay: `${lockDelayMs}ms`,
      Behavior: "delete",
      Checks: [],
      NodeChecks: [],
    });
    const request = { method: "PUT", path: "/v1/session/create", body, isRead: false } as const;
    const reply = await this.#send(call, request);
    const { ID: id } = fields(parse(reply, { ...call, isRead: false }));
    return String(id);
  }

  /** Sets the session's time anew, if it lives. */
  async keepSession(id: string, call: ConsulCall): Promise<"alive" | "gone"> {
    const path = `/v1/session/renew/${encodeURIComponent(id)}`;
    // It changes no record: an answer that is lost loses nothing.
    const request = { method: "PUT", path, isRead: true, accept: [404] } as const;
    const { status } = await this.#send(call, request);
    return status === 404 ? "gone" : "alive";
  }

  async closeSession(id: string, call: ConsulCall): Promise<void> {
    const path = `/v1/session/destroy/${encodeURIComponent(id)}`;
    await this.#send(call, { method: "PUT", path, isRead: false });
  }

  /** Number of servers that keep the log. */
  async countServers(call: ConsulCall): Promise<number> {
    const request = { method: "GET", path: "/v1/status/peers", isRead: true } as const;
    const reply = await this.#send(call, request);
    return list(parse(reply, { ...call, isRead: true })).length;
  }

  close(): void {
    this.#http.close();
  }

  #send(call: ConsulCall, request: Omit<HttpRequest, "during" | "lane">): Promise<HttpReply> {
    const { during, lane } = call;
    return this.#http.send({ ...request, during, ...(lane === undefined ? {} : { lane }) }, call);
  }
}

function toWire(op: ConsulOp): object {
  const wire = {
    Verb: op.verb,
    Key: op.key,
    ...("value" in op ? { Value: Buffer.from(op.value).toString("base64") } : {}),
    ...("session" in op ? { Session: op.session } : {}),
    ...("index" in op ? { Index: op.index } : {}),
  };
  return { KV: wire };
}

function toEntry(json: unknown): ConsulEntry {
  const { Key: key, Value: value, Session: session, ModifyIndex: index } = fields(json);
  return {
    key: String(key),
    value: typeof value === "string" ? Buffer.from(value, "base64") : new Uint8Array(0),
    session: typeof session === "string" && session !== "" ? session : undefined,
    index: BigInt(String(index)),
  };
}

/** Results come without the places of the operations: those that were missing have none. */
function arrange(
  keys: readonly string[],
  entries: readonly ConsulEntry[],
  missing: ReadonlySet<number>,
  during: string,
): readonly (ConsulEntry | undefined)[] {
  const rest = [...entries];
  const all = keys.map((key, place) =>
    missing.has(place) ? undefined : { key, one: rest.shift() },
  );
  return all.map((wanted) => {
    if (wanted === undefined || wanted.one?.key === wanted.key) return wanted?.one;
    // Reads that the ACL system does not allow are left out in silence.
    throw explainDenied(`${wanted.key} cannot be read`, during);
  });
}

function parse(reply: HttpReply, { during, isRead }: ConsulFailure): unknown {
  try {
    return parseExact(reply.body);
  } catch (cause) {
    const text = `cannot ${during}: the answer is not one of Consul's`;
    const context = { backend: "consul", cause };
    if (!isRead) throw new OutcomeUnknownError(text, context);
    throw new UnavailableError(text, { ...context, retryable: false });
  }
}

function fields(json: unknown): Json {
  return typeof json === "object" && json !== null ? (json as Json) : {};
}

function list(json: unknown): readonly unknown[] {
  return Array.isArray(json) ? json : [];
}

function toPath(key: string): string {
  return key.split("/").map(encodeURIComponent).join("/");
}
