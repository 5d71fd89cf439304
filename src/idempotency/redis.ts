/**
 * Idempotency keys on Redis.
 *
 * An attempt has the key for a lease by the server's clock, and an id of its own, without which
 * nothing is recorded. Its signal ends a little before the lease, counted from before the request
 * was sent.
 */
import { Calls } from "../core/call.js";
import { elapsedMs, now, validityMs } from "../core/deadline.js";
import { LeaseLostError, OutcomeUnknownError, UnavailableError } from "../core/errors.js";
import type { TenureError } from "../core/errors.js";
import { checkResult, checkTerms, resultOf, type Keeping, type Terms } from "./arguments.js";
import type { Once, RedisIdempotency } from "./contract.js";
import { checkInput, inProgress } from "./errors.js";
import { Patience, type PatienceRuntime } from "./patience.js";
import { ABANDON, BEGIN, FINISH } from "./redis-scripts.js";

/** A reply: maps are flat arrays, bytes are text. */
export type RedisValue = string | number | null | readonly RedisValue[];

/** What is needed of a client. */
export interface RedisParts extends Keeping {
  readonly runtime: PatienceRuntime;
  readonly commands: {
    evaluate(script: string, keys: readonly string[], args: readonly string[]): Promise<RedisValue>;
  };
  explain(error: unknown, failure: { during: string; backend: string }): TenureError;
  readonly prefix: string;
  readonly timeoutMs: number;
  close(): void;
}

const BACKEND = "redis";
const DURING = "run work under an idempotency key";

/** Idempotency keys through an open client. */
export function redisIdempotency(parts: RedisParts): RedisIdempotency {
  const { runtime, prefix } = parts;
  const calls = new Calls(runtime.timers, parts.timeoutMs, BACKEND);
  let isOpen = true;

  const ask = async (script: string, key: string, ...args: string[]): Promise<RedisValue> => {
    if (!isOpen) {
      throw new UnavailableError(`cannot ${DURING}: the store is closed`, {
        backend: BACKEND,
        retryable: false,
      });
    }
    return await calls.run(DURING, undefined, () =>
      parts.commands.evaluate(script, [prefix + key], args).catch((error: unknown) => {
        throw parts.explain(error, { during: DURING, backend: BACKEND });
      }),
    );
  };

  /** Never rejects: if it is lost, the lease ends the attempt. */
  const abandon = async ({ key }: Terms, attempt: string): Promise<void> => {
    await ask(ABANDON, key, attempt).catch(() => undefined);
  };

  const begin = async (terms: Terms, attempt: string): Promise<RedisValue[]> => {
    const { key, leaseMs } = terms;
    try {
      return (await ask(BEGIN, key, attempt, String(leaseMs))) as RedisValue[];
    } catch (error) {
      if (!(error instanceof OutcomeUnknownError)) throw error;
      // The key may be ours without our knowing.
      void abandon(terms, attempt);
      throw new UnavailableError(
        `cannot ${DURING}: the work was not run, and the key may be taken for ${leaseMs} ms`,
        { backend: BACKEND, cause: error },
      );
    }
  };

  const carryOut = async (
    terms: Terms,
    attempt: string,
    leftMs: number,
    work: (attempt: { signal: AbortSignal }) => unknown,
  ): Promise<Once<unknown>> => {
    const { key, inputHash, ttlMs, leaseMs } = terms;
    const controller = new AbortController();
    const lost = (outcome?: LeaseLostError["outcome"]): LeaseLostError =>
      new LeaseLostError(
        `the work under the idempotency key ${JSON.stringify(key)} outlasted its lease of ` +
          `${leaseMs} ms`,
        { backend: BACKEND, reason: "deadline", ...(outcome === undefined ? {} : { outcome }) },
      );
    const timer = runtime.timers.after(leftMs, () => controller.abort(lost()));
    let result: string | null;
    try {
      result = checkResult(await work({ signal: controller.signal }), parts);
    } catch (error) {
      // What the work failed with is what matters.
      await abandon(terms, attempt);
      throw error;
    } finally {
      timer.cancel();
    }
    const texts = [attempt, String(ttlMs), inputHash, ...(result === null ? [] : [result])];
    const value = resultOf(result);
    if ((await ask(FINISH, key, ...texts)) !== 1) throw lost({ status: "fulfilled", value });
    return { result: value, replayed: false };
  };

  const once = async (
    terms: Terms,
    work: (attempt: { signal: AbortSignal }) => unknown,
  ): Promise<Once<unknown>> => {
    const patience = new Patience(runtime, terms.waitMs);
    const attempt = runtime.random.id();
    for (;;) {
      const sentAt = now(runtime.clock);
      const [standing, inputHash, result] = await begin(terms, attempt);
      if (standing === "ours") {
        const leftMs = validityMs(terms.leaseMs) - elapsedMs(sentAt, now(runtime.clock));
        if (leftMs > 0) return await carryOut(terms, attempt, leftMs, work);
        // Another may have run it since: the store knows.
        if (await patience.rest()) continue;
        await abandon(terms, attempt);
        throw tooLate(terms);
      }
      if (standing === "done") {
        checkInput(terms, inputHash as string, BACKEND);
        return { result: resultOf((result ?? null) as string | null), replayed: true };
      }
      if (!(await patience.rest())) throw inProgress(terms.key, BACKEND);
    }
  };

  return {
    once: async (key, options, work) => {
      const terms = checkTerms(key, options, work, ["wait", "lease"], parts);
      return (await once(terms, work)) as Once<never>;
    },
    close: async () => {
      if (!isOpen) return;
      isOpen = false;
      calls.endAll();
      parts.close();
    },
  };
}

function tooLate({ leaseMs }: Terms): UnavailableError {
  const text = `the work was not run: each answer came after the end of its lease of ${leaseMs} ms`;
  return new UnavailableError(`cannot ${DURING}: ${text}`, { backend: BACKEND });
}
