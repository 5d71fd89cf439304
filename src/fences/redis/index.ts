/**
 * Fence over keys of a Redis or Valkey server, or of a cluster: the check of the mark and the
 * commands of a write are one Lua script.
 *
 * A command that fails, with the wrong type say, stops the commands after it; those before it stay,
 * since Redis takes nothing back. Then the outcome is told as unknown, unless it was the first.
 *
 * Not promised: more than the server itself. A failover that loses acknowledged writes loses marks
 * with them, and may let an older holder in again until the newer one arms anew. Persistence and
 * eviction are the server's settings: marks have no TTL, but `allkeys-` policies evict them all the
 * same, and so does FLUSHALL. Code that writes the same keys without a handle is not stopped.
 */
import {
  ArgumentTypeError,
  OutcomeUnknownError,
  type TenureError,
  UnavailableError,
} from "../../core/errors.js";
import { checkName } from "../../core/names.js";
import { throwIfAborted } from "../bearer.js";
import type {
  Fence,
  FenceCall,
  FenceOptions,
  FenceRuntime,
  FenceStore,
  OnStale,
  Ran,
  Work,
} from "../contract.js";
import { rebase, type FenceRequest, type MarkRecord, type Refusal, type Verdict } from "../decide.js";
import { createFence } from "../fence.js";
import { pastFromJson, pastToJson, recordFromJson } from "../record.js";
import type { Faults, RedisValue, Scripting } from "./client.js";
import { dataKey, DEFAULT_PREFIX, lowKey, markKey } from "./keys.js";
import { ARM, LOAD, readScript, REBASE, writeScript } from "./scripts.js";
import { Notebook, type RedisTx } from "./transaction.js";

/** Options of a Redis fence. */
export interface RedisFenceOptions<S extends OnStale = "reject"> extends FenceOptions<S> {
  /** Beginning of the keys of marks. Default `tenure:fence:`. */
  readonly prefix?: string;
}

/**
 * A fence over keys of Redis. `work` notes commands; awaiting a reply sends them, together with the
 * check, and nothing can be added after that.
 */
export interface RedisFence<S extends OnStale = "reject"> extends Fence<RedisTx, RedisTx, S> {
  /** A key for data of a resource that is not named like its key; in a cluster in its slot. */
  key(resource: string, suffix: string): string;
}

/** What a fence is made of. */
export interface RedisFenceParts {
  readonly commands: Scripting;
  readonly faults: Faults;
  readonly runtime: FenceRuntime;
}

/** @throws TypeError or RangeError for wrong options. */
export function createRedisFence<S extends OnStale = "reject">(
  parts: RedisFenceParts,
  options: RedisFenceOptions<S> = {},
): RedisFence<S> {
  const prefix = checkPrefix(options.prefix ?? DEFAULT_PREFIX);
  const store = redisStore(parts, prefix);
  const fence = createFence<RedisTx, RedisTx, S>(store, parts.runtime, options);
  return {
    arm: (bearer, resource) => fence.arm(bearer, resource),
    armAll: (bearer, resources) => fence.armAll(bearer, resources),
    resource: (name) => fence.resource(name),
    mark: (resource) => fence.mark(resource),
    rebase: (resource, to) => fence.rebase(resource, to),
    key: (resource, suffix) => dataKey(markKey(prefix, checkName(resource, "resource")), suffix),
  };
}

function checkPrefix(prefix: unknown): string {
  const text = checkName(prefix, "prefix");
  if (!/[{}]/.test(text)) return text;
  throw new ArgumentTypeError("prefix", prefix, "text without braces");
}

/** A step that the fence refused: the work hears of it only if it awaits a reply. */
class Refused extends Error {
  readonly verdict: Extract<Verdict, { readonly accepted: false }>;

  constructor(verdict: Refused["verdict"]) {
    super("the fence refused the step");
    this.verdict = verdict;
  }
}

/** The store alone, for those who put something between a handle and it. */
export function redisStore(
  { commands, faults }: Pick<RedisFenceParts, "commands" | "faults">,
  prefix: string = DEFAULT_PREFIX,
): FenceStore<RedisTx, RedisTx> {
  const keysOf = (resource: string): readonly [mark: string, low: string] => {
    const mark = markKey(prefix, resource);
    return [mark, lowKey(mark)];
  };

  async function run(
    during: string,
    script: string,
    resource: string,
    keys: readonly string[],
    args: readonly string[],
  ): Promise<readonly RedisValue[]> {
    try {
      return list(await commands.evaluate(script, [...keysOf(resource), ...keys], args));
    } catch (error) {
      throw explain(error, during, resource);
    }
  }

  function explain(error: unknown, during: string, resource: string): TenureError {
    const text = error instanceof Error ? error.message : String(error);
    const about = { backend: "redis", retryable: false, cause: error };
    if (/TENURE_FOREIGN|\bWRONGTYPE\b/.test(text)) {
      const key = JSON.stringify(markKey(prefix, resource));
      const what = `cannot ${during}: ${key} holds something that is no mark`;
      return new UnavailableError(what, about);
    }
    if (/CROSSSLOT|same slot/i.test(text)) {
      return new UnavailableError(
        `cannot ${during}: its keys are in other slots of the cluster than the mark; name the ` +
          "resource like the key, give the keys one hash tag, or use fence.key()",
        about,
      );
    }
    return faults.explain(error, { during, backend: "redis" });
  }

  async function load(resource: string): Promise<MarkRecord | null> {
    const reply = await run("read the mark", LOAD, resource, [], []);
    return toRecord(reply, resource);
  }

  /** Runs the work, sends what it noted, and says what came of it. */
  async function perform<R>(
    request: FenceRequest,
    work: Work<RedisTx, R>,
    call: FenceCall,
  ): Promise<Ran<R>> {
    const { op, resource } = request;
    const during = `${op} ${JSON.stringify(resource)}`;
    const notebook = new Notebook(
      (suffix) => dataKey(markKey(prefix, resource), suffix),
      async ({ scripts, keys, args }) => {
        throwIfAborted(call);
        const script = op === "read" ? readScript(scripts) : writeScript(scripts);
        const sent = [...fields(request), ...args];
        const [code, second, third] = await run(during, script, resource, keys, sent);
        if (Number(code) === 1) return list(second ?? null);
        if (Number(code) === 0) throw new Refused(refused(second, third, resource));
        throw failed(during, Number(second), String(third), op === "read");
      },
    );
    try {
      const result = await work(notebook.tx);
      await notebook.send();
      return { accepted: true, result };
    } catch (error) {
      if (!notebook.isSent) throw error;
      try {
        await notebook.send();
      } catch (outcome) {
        if (!(outcome instanceof Refused)) throw outcome;
        return outcome.verdict;
      }
      if (op === "read") throw error;
      const text = `cannot ${during}: it was applied, and then its work failed`;
      throw new OutcomeUnknownError(text, { backend: "redis", cause: error });
    } finally {
      notebook.end();
    }
  }

  return {
    kind: "redis",
    work: "async",
    load,
    arm: async (request, call) => {
      throwIfAborted(call);
      const { resource, scope, token, holder, arm, n } = request;
      const reply = await run("arm", ARM, resource, [], fields(request));
      const [code, second, third] = reply;
      if (Number(code) !== 1) return refused(second, third, resource);
      const past = pastFromJson(JSON.parse(String(second)));
      return { accepted: true, record: { scope, token, holder, arm, n, past } };
    },
    read: perform,
    write: perform,
    rebase: async (request) => {
      for (;;) {
        const { resource } = request;
        const reply = await run("read the mark", LOAD, resource, [], []);
        const before = toRecord(reply, resource);
        const after = rebase(before, request);
        if (after === before) return { before, after };
        const seen = before === null ? [] : reply.map(String);
        const args = [...seen, ...recordFields(after)];
        const [changed] = await run("rebase", REBASE, resource, [], args);
        if (Number(changed) === 1) return { before, after };
      }
    },
  };
}

function refused(
  why: RedisValue | undefined,
  fieldsOf: RedisValue | undefined,
  resource: string,
): Refused["verdict"] {
  const record = toRecord(list(fieldsOf ?? null), resource);
  return { accepted: false, why: String(why) as Refusal, record };
}

function failed(during: string, nth: number, text: string, isRead: boolean): TenureError {
  const what = `cannot ${during}: its command ${nth} failed: ${text}`;
  if (nth === 1 || isRead) {
    return new UnavailableError(what, { backend: "redis", retryable: false });
  }
  return new OutcomeUnknownError(`${what}; those before it were applied`, { backend: "redis" });
}

function fields({ op, scope, token, holder, arm, n }: FenceRequest): readonly string[] {
  return [op, scope.storeId, scope.name, String(token), holder, String(arm), String(n)];
}

function recordFields({ scope, token, holder, arm, n, past }: MarkRecord): readonly string[] {
  const json = JSON.stringify(pastToJson(past));
  return [scope.storeId, scope.name, String(token), holder, String(arm), String(n), json];
}

function toRecord(reply: readonly RedisValue[], resource: string): MarkRecord | null {
  if (reply.length === 0) return null;
  const [storeId, name, token, holder, arm, n, past] = reply.map(String);
  try {
    return recordFromJson({
      scope: { storeId, name },
      token,
      holder,
      arm: Number(arm),
      n: Number(n),
      past: JSON.parse(past ?? "") as unknown,
    });
  } catch (error) {
    throw new UnavailableError(`the mark of ${JSON.stringify(resource)} is damaged`, {
      backend: "redis",
      retryable: false,
      cause: error,
    });
  }
}

function list(reply: RedisValue): readonly RedisValue[] {
  return Array.isArray(reply) ? (reply as readonly RedisValue[]) : [reply];
}
