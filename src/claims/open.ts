import { parseDuration, type Duration } from "../core/duration.js";
import { ArgumentTypeError } from "../core/errors.js";
import { checkKnown } from "../core/options.js";
import type { Runtime } from "../core/runtime.js";
import type { RedisClient } from "../drivers/redis/client.js";
import { explainRedis } from "../drivers/redis/errors.js";
import { borrowRedis } from "../drivers/redis/open.js";
import { platform } from "../platform/index.js";
import { openSqlStore, type DialectOf, type SqlTarget } from "../sql/open.js";
import type { Dialect } from "../sql/statement.js";
import type { SqlStore, SqlStoreOptions } from "../sql/store.js";
import { callsOver } from "./calls.js";
import type { Claims, LoneClaims } from "./contract.js";
import { redisClaims, type RedisParts } from "./redis.js";
import { CLAIM_TABLES } from "./tables.js";

export type { FencingToken, TokenBearer } from "../core/token.js";
export type { RowKey } from "../sql/guarded.js";
export type { DialectOf, SqlTarget } from "../sql/open.js";
export type { Answered } from "../sql/script.js";
export type { Dialect, Rendered } from "../sql/statement.js";
export type { TableSqlOptions } from "../sql/tables.js";
export type { CallersTx, SqlStoreOptions, Tx, Work } from "../sql/store.js";
export type {
  Claim,
  ClaimCalls,
  ClaimRecord,
  Claims,
  ClaimState,
  LeaseOption,
  ListOptions,
  LoneClaims,
  OwnedKey,
} from "./contract.js";
export { jobStatements, type JobClaim, type JobStatements, type JobTable } from "./own-table.js";

export { tableSql } from "./tables.js";

/** Options of claims in Redis. */
export interface RedisClaimsOptions {
  /** Beginning of all keys; the rest is in one hash tag. Default `tenure:`. */
  readonly prefix?: string;
  /** Longest wait for an answer. Default 5 s. */
  readonly timeout?: Duration;
  /** Clocks, timers and randomness to use instead of the machine's: for simulations. */
  readonly runtime?: Runtime;
}

type RedisTarget = `${"redis" | "rediss"}://${string}` | RedisClient;

const URLS = "sqlite:PATH postgres:// mysql:// redis:// rediss://";

/**
 * Claims: a unique key is the lock. Who inserts it first has it.
 *
 * In a SQL database, by URL (`sqlite:PATH`, `postgres://`, `mysql://`) or over a client of the
 * caller's, each call can also run in the caller's own transaction. In Redis, by URL or over a
 * client, each call is by itself. A URL that is known only at run time is typed as that of a SQL
 * database.
 *
 * @throws TypeError or RangeError for a wrong target or option. UnavailableError when the store
 *   cannot be opened, its client library is missing, or its tables are missing or newer.
 */
export async function claims(
  target: RedisTarget,
  options?: RedisClaimsOptions,
): Promise<LoneClaims>;
export async function claims<T extends SqlTarget>(
  target: T,
  options?: SqlStoreOptions,
): Promise<Claims<DialectOf<T>>>;
export async function claims(
  target: SqlTarget | RedisClient,
  options: SqlStoreOptions | RedisClaimsOptions = {},
): Promise<LoneClaims | Claims<Dialect>> {
  if (isRedis(target)) return await openInRedis(target, options);
  checkKnown(options, ["schema", "migrate", "timeout", "runtime"]);
  const store: SqlStore<Dialect> = await openSqlStore<SqlTarget>(
    target,
    CLAIM_TABLES,
    options,
    URLS,
  );
  const { random } = options.runtime ?? platform();
  const { dialect: backend, storeId } = store;
  const parts = { backend, storeId, newHolder: () => random.id() };
  return {
    ...callsOver(store.run, parts),
    storeId,
    within: (tx) => callsOver(store.within(tx), parts),
    transaction: (work) => store.transaction("run the work", work),
    close: () => store.close(),
  };
}

function isRedis(target: unknown): target is string | RedisClient {
  if (typeof target === "string") return /^rediss?:/i.test(target);
  const has = (name: string): boolean =>
    typeof (target as Record<string, unknown> | null | undefined)?.[name] === "function";
  return has("duplicate") && (has("call") || has("sendCommand"));
}

async function openInRedis(
  target: string | RedisClient,
  options: RedisClaimsOptions,
): Promise<LoneClaims> {
  checkKnown(options, ["prefix", "timeout", "runtime"]);
  const { prefix = "tenure:", timeout = 5_000, runtime = platform() } = options;
  if (typeof prefix !== "string" || /[{}\s\0]/.test(prefix)) {
    throw new ArgumentTypeError("prefix", prefix, "text without braces and spaces");
  }
  const timeoutMs = parseDuration(timeout, "timeout");
  const { commands, close } = await borrowRedis(target);
  const parts: RedisParts = {
    evaluate: (script, keys, args) => commands.evaluate(script, keys, args),
    explain: explainRedis,
    timers: runtime.timers,
    newId: () => runtime.random.id(),
    prefix,
    timeoutMs,
    close: async () => close(),
  };
  try {
    return await redisClaims(parts);
  } catch (error) {
    close();
    throw error;
  }
}
