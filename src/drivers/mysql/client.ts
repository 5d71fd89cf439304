/** The part of `mysql2` that Tenure uses, recognised by its shape: a pool, of either kind. */
import { ArgumentTypeError } from "../../core/errors.js";

/** A pool as a caller hands it over: what `createPool` of `mysql2` or of `mysql2/promise` made. */
export interface MysqlPool {
  getConnection(...args: never[]): unknown;
  execute(...args: never[]): unknown;
  end(...args: never[]): unknown;
}

/** A statement, and how its answer is read, whatever the pool's own settings. */
export interface MysqlStatement {
  readonly sql: string;
  readonly values: readonly unknown[];
  readonly [option: string]: unknown;
}

/** What both kinds of a connection are underneath. */
export interface CoreConnection {
  execute(statement: MysqlStatement, done: Done<unknown>): unknown;
  query(text: string, done: Done<unknown>): unknown;
  /** Forgets a prepared statement, and says so to the server, which does not answer. */
  unprepare(statement: MysqlStatement): unknown;
  on(event: string, listener: (error?: Error) => void): unknown;
  once(event: string, listener: (error?: Error) => void): unknown;
  end(done: () => void): void;
  destroy(): void;
  readonly stream?: { destroy(): void; destroySoon?(): void };
}

/** A connection of a pool. */
export interface CorePoolConnection extends CoreConnection {
  release(): void;
}

/** What both kinds of a pool are underneath. */
export interface CorePool {
  getConnection(done: Done<CorePoolConnection>): void;
  end(done: Done<void>): void;
  readonly config: { readonly connectionConfig: Readonly<Record<string, unknown>> };
}

type Done<R> = (error: Error | null, result: R) => void;

/**
 * The pool underneath.
 *
 * @throws TypeError for anything else, a single connection too: it would be busy with one
 *   statement while another must be answered.
 */
export function corePool(pool: unknown, option = "pool"): CorePool {
  const inner = (pool as { pool?: unknown } | null | undefined)?.pool ?? pool;
  if (isCorePool(inner)) return inner;
  throw new ArgumentTypeError(option, pool, "a pool of mysql2, made by createPool");
}

function isCorePool(value: unknown): value is CorePool {
  if (typeof value !== "object" || value === null) return false;
  const { getConnection, end, config } = value as Partial<CorePool>;
  if (typeof getConnection !== "function" || typeof end !== "function") return false;
  return typeof config?.connectionConfig === "object";
}
