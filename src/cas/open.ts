import { callTimeoutMs } from "../core/call.js";
import type { Duration } from "../core/duration.js";
import { ArgumentTypeError } from "../core/errors.js";
import { checkKnown } from "../core/options.js";
import type { Runtime } from "../core/runtime.js";
import type { EtcdAccess } from "../drivers/etcd/address.js";
import { EtcdClient } from "../drivers/etcd/client.js";
import { borrowEtcd } from "../drivers/etcd/open.js";
import type { RedisClient } from "../drivers/redis/client.js";
import { explainRedis } from "../drivers/redis/errors.js";
import { borrowRedis } from "../drivers/redis/open.js";
import { platform } from "../platform/index.js";
import { openSqlStore, type DialectOf, type SqlTarget } from "../sql/open.js";
import type { SqlStoreOptions } from "../sql/store.js";
import { checkMaxBytes } from "./arguments.js";
import type { Cas, SqlCas } from "./contract.js";
import { etcdCas } from "./etcd.js";
import { sqlCas } from "./index.js";
import { redisCas } from "./redis.js";
import { CAS_TABLES } from "./tables.js";

export type { EtcdAccess } from "../drivers/etcd/address.js";
export type { EtcdClient } from "../drivers/etcd/client.js";
export type { Answered, When } from "../sql/script.js";
export type { Dialect } from "../sql/statement.js";
export type { CallersTx, SqlStoreOptions } from "../sql/store.js";
export type { SqlTarget } from "../sql/open.js";
export type * from "./contract.js";
export { ConflictError } from "./errors.js";
export { tableSql } from "./tables.js";

/** Options over a SQL database. */
export interface CasOptions extends SqlStoreOptions {
  /** Largest value, bytes of its JSON. Default 256 KiB. */
  readonly maxBytes?: number;
}

/** Options over Redis. */
export interface RedisCasOptions {
  /** Beginning of all keys. Default `tenure:cas:` on Redis, `tenure/cas/` on etcd. */
  readonly prefix?: string;
  /** Largest value, bytes of its JSON. Default 256 KiB. */
  readonly maxBytes?: number;
  /** Longest that one request may take. Default 5 s. */
  readonly timeout?: Duration;
  /** Clocks, timers and randomness to use instead of the machine's: for simulations. */
  readonly runtime?: Runtime;
}

/** Options over etcd. */
export interface EtcdCasOptions extends RedisCasOptions, EtcdAccess {}

/** Where Redis is: a URL, or a client of node-redis, ioredis or iovalkey. */
export type RedisTarget = `redis://${string}` | `rediss://${string}` | RedisClient;

/** Where etcd is: a URL with all its hosts, or a client of `tenure/backends/etcd`. */
export type EtcdTarget = `etcd://${string}` | `etcds://${string}` | EtcdClient;

const SQL_OPTIONS: readonly string[] = ["schema", "migrate", "timeout", "runtime", "maxBytes"];
const URLS = "sqlite:PATH postgres:// mysql:// redis:// rediss:// etcd:// etcds://";
const REDIS_OPTIONS: readonly string[] = ["prefix", "timeout", "runtime", "maxBytes"];
const ACCESS_OPTIONS: readonly string[] = ["user", "password", "tls", "ca", "cert", "key"];

/** Compare-and-swap on etcd, over the JSON gateway of its members. */
export function cas(target: EtcdTarget, options?: EtcdCasOptions): Promise<Cas>;
/** Compare-and-swap on Redis. A failover may lose a write that was answered. */
export function cas(target: RedisTarget, options?: RedisCasOptions): Promise<Cas>;
/**
 * Compare-and-swap in a SQL database, by URL (`sqlite:PATH`, `postgres://`, `mysql://`) or over a
 * client of the caller's; its table is made on first use.
 *
 * @throws TypeError or RangeError for a wrong target or option. UnavailableError when the store
 *   cannot be opened, its client library or its table is missing.
 */
export function cas<T extends SqlTarget>(
  target: T,
  options?: CasOptions,
): Promise<SqlCas<DialectOf<T>>>;
export async function cas(
  target: EtcdClient | RedisClient | SqlTarget,
  options: CasOptions & EtcdCasOptions = {},
): Promise<Cas | SqlCas<DialectOf<SqlTarget>>> {
  if (isEtcd(target)) return openOnEtcd(target, options);
  if (isRedis(target)) return await openOnRedis(target, options);
  checkKnown(options, SQL_OPTIONS);
  const { maxBytes, ...forStore } = options;
  const parts = { maxBytes: checkMaxBytes(maxBytes), runtime: options.runtime ?? platform() };
  return sqlCas(await openSqlStore(target, CAS_TABLES, forStore, URLS), parts);
}

function isEtcd(target: unknown): target is string | EtcdClient {
  return typeof target === "string" ? /^etcds?:/i.test(target) : target instanceof EtcdClient;
}

function isRedis(target: unknown): target is string | RedisClient {
  if (typeof target === "string") return /^rediss?:/i.test(target);
  const has = (name: string): boolean =>
    typeof (target as Record<string, unknown> | null | undefined)?.[name] === "function";
  return has("duplicate") && (has("call") || has("sendCommand"));
}

function checkSettings(
  { prefix, maxBytes, timeout, runtime = platform() }: RedisCasOptions,
  usual: string,
): { prefix: string; maxBytes: number; timeoutMs: number; runtime: Runtime } {
  if (prefix !== undefined && typeof prefix !== "string") {
    throw new ArgumentTypeError("prefix", prefix, "a text");
  }
  const timeoutMs = callTimeoutMs(timeout);
  return { prefix: prefix ?? usual, maxBytes: checkMaxBytes(maxBytes), timeoutMs, runtime };
}

function openOnEtcd(target: string | EtcdClient, options: EtcdCasOptions): Cas {
  checkKnown(options, [...REDIS_OPTIONS, ...ACCESS_OPTIONS]);
  const settings = checkSettings(options, "tenure/cas/");
  const { client, close } = borrowEtcd(target, options, settings.runtime);
  return etcdCas({ ...settings, gateway: client, close });
}

async function openOnRedis(target: string | RedisClient, options: RedisCasOptions): Promise<Cas> {
  checkKnown(options, REDIS_OPTIONS);
  const settings = { ...checkSettings(options, "tenure:cas:"), explain: explainRedis };
  return redisCas({ ...settings, ...(await borrowRedis(target)) });
}
