import { createHash } from "node:crypto";
import { callTimeoutMs } from "../core/call.js";
import { ArgumentTypeError } from "../core/errors.js";
import type { Duration } from "../core/duration.js";
import { checkKnown } from "../core/options.js";
import type { Runtime } from "../core/runtime.js";
import type { RedisClient } from "../drivers/redis/client.js";
import { explainRedis } from "../drivers/redis/errors.js";
import { borrowRedis } from "../drivers/redis/open.js";
import { platform } from "../platform/index.js";
import { openSqlStore, type DialectOf, type SqlTarget } from "../sql/open.js";
import type { SqlStoreOptions } from "../sql/store.js";
import { checkMaxBytes } from "./arguments.js";
import type { Idempotency, RedisIdempotency } from "./contract.js";
import { sqlIdempotency } from "./index.js";
import { redisIdempotency } from "./redis.js";
import { IDEMPOTENCY_TABLES } from "./tables.js";

export type { Answered } from "../sql/script.js";
export type { Dialect } from "../sql/statement.js";
export type { CallersTx, SqlStoreOptions, Tx, Work, WorkResult } from "../sql/store.js";
export type { SqlTarget } from "../sql/open.js";
export type * from "./contract.js";
export { InProgressError, KeyReusedError } from "./errors.js";
export { tableSql } from "./tables.js";

/** Options over a SQL database. */
export interface IdempotencyOptions extends SqlStoreOptions {
  /** Largest result, bytes of its JSON. Default 256 KiB. */
  readonly maxBytes?: number;
}

/** Options over Redis. */
export interface RedisIdempotencyOptions {
  /** Beginning of all keys. Default `tenure:idempotency:`. */
  readonly prefix?: string;
  /** Largest result, bytes of its JSON. Default 256 KiB. */
  readonly maxBytes?: number;
  /** Longest that one request may take. Default 5 s. */
  readonly timeout?: Duration;
  /** Clocks, timers and randomness to use instead of the machine's: for simulations. */
  readonly runtime?: Runtime;
}

/** Where Redis is: a URL, or a client of node-redis, ioredis or iovalkey. */
export type RedisTarget = `redis://${string}` | `rediss://${string}` | RedisClient;

const URLS = "sqlite:PATH postgres:// mysql:// redis:// rediss://";
const SQL_OPTIONS: readonly string[] = ["schema", "migrate", "timeout", "runtime", "maxBytes"];
const REDIS_OPTIONS: readonly string[] = ["prefix", "timeout", "runtime", "maxBytes"];

const digest = (text: string): string => createHash("sha256").update(text).digest("base64url");

/** Idempotency keys on Redis, where effect and record cannot be committed together. */
export function idempotency(
  target: RedisTarget,
  options?: RedisIdempotencyOptions,
): Promise<RedisIdempotency>;
/**
 * Idempotency keys in a SQL database, by URL (`sqlite:PATH`, `postgres://`, `mysql://`) or over a
 * client of the caller's; its table is made on first use.
 *
 * @throws TypeError or RangeError for a wrong target or option. UnavailableError when the store
 *   cannot be opened, its client library or its table is missing.
 */
export function idempotency<T extends SqlTarget>(
  target: T,
  options?: IdempotencyOptions,
): Promise<Idempotency<DialectOf<T>>>;
export async function idempotency(
  target: RedisClient | SqlTarget,
  options: IdempotencyOptions & RedisIdempotencyOptions = {},
): Promise<RedisIdempotency | Idempotency<DialectOf<SqlTarget>>> {
  if (isRedis(target)) return await openOnRedis(target, options);
  checkKnown(options, SQL_OPTIONS);
  const { maxBytes, ...forStore } = options;
  const parts = { digest, maxBytes: checkMaxBytes(maxBytes) };
  const store = await openSqlStore(target, IDEMPOTENCY_TABLES, forStore, URLS);
  return sqlIdempotency(store, { ...parts, runtime: options.runtime ?? platform() });
}

function isRedis(target: unknown): target is string | RedisClient {
  if (typeof target === "string") return /^rediss?:/i.test(target);
  const has = (name: string): boolean =>
    typeof (target as Record<string, unknown> | null | undefined)?.[name] === "function";
  return has("duplicate") && (has("call") || has("sendCommand"));
}

async function openOnRedis(
  target: string | RedisClient,
  options: RedisIdempotencyOptions,
): Promise<RedisIdempotency> {
  checkKnown(options, REDIS_OPTIONS);
  const { prefix = "tenure:idempotency:", runtime = platform() } = options;
  if (typeof prefix !== "string") throw new ArgumentTypeError("prefix", prefix, "a text");
  const settings = {
    ...{ digest, prefix, runtime },
    maxBytes: checkMaxBytes(options.maxBytes),
    timeoutMs: callTimeoutMs(options.timeout),
    explain: explainRedis,
  };
  return redisIdempotency({ ...settings, ...(await borrowRedis(target)) });
}
