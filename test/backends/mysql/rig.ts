import { setTimeout as sleep } from "node:timers/promises";
import { createPool, type Pool, type PoolConnection, type PoolOptions } from "mysql2/promise";
import { onTestFinished } from "vitest";
import { mysql, type MysqlBackend, type MysqlOptions } from "../../../src/backends/mysql/open.js";
import type { AcquireRequest, Call, Grant, Held } from "../../../src/core/backend.js";
import type { MariadbServer } from "../../servers/mariadb.js";

let count = 0;

/** A schema of one test. Everybody may do everything in those whose names begin with "test_". */
export const freshSchema = (): string => `leases_${process.pid}_${++count}`;

export const call = (timeoutMs = 5_000): Call => ({
  timeoutMs,
  signal: new AbortController().signal,
});

/** A call whose signal aborts after its time, as the core's does. */
export function boundedCall(timeoutMs: number): Call {
  const controller = new AbortController();
  const timer = setTimeout(() => controller.abort(new Error("timed out")), timeoutMs);
  onTestFinished(() => clearTimeout(timer));
  return { timeoutMs, signal: controller.signal };
}

/** A request with what does not matter filled in. */
export const request = (name: string, wish: Partial<AcquireRequest> = {}): AcquireRequest => ({
  name,
  holder: `h${++count}`,
  ttlMs: 30_000,
  ...wish,
});

/** An open backend; closed when the test ends. */
export async function openOn(
  target: string | Pool,
  options: MysqlOptions = {},
): Promise<MysqlBackend> {
  const backend = await mysql(target, options);
  onTestFinished(() => backend.close());
  await backend.open!(call(10_000));
  return backend;
}

/** A pool of the caller; closed when the test ends. */
export function poolOn(server: MariadbServer, config: PoolOptions = {}): Pool {
  const pool = createPool({ uri: server.url, ...config });
  onTestFinished(() => pool.end());
  return pool;
}

/** A person's session with a transaction under way; rolled back when the test ends. */
export async function transactionOn(server: MariadbServer): Promise<PoolConnection> {
  const session = await poolOn(server).getConnection();
  onTestFinished(() => session.destroy());
  await session.query("BEGIN");
  return session;
}

/** Rows of a statement in a person's session. */
export async function rows(
  session: PoolConnection,
  sql: string,
  values: readonly (string | number | null)[] = [],
): Promise<readonly unknown[]> {
  const [answer] = await session.execute(sql, [...values]);
  return answer as unknown[];
}

export async function take(
  backend: MysqlBackend,
  name: string,
  wish: Partial<AcquireRequest> = {},
): Promise<Grant> {
  const answer = await backend.acquire(request(name, wish), call());
  if ("grant" in answer) return answer.grant;
  throw new Error(`${name} is held by ${answer.held.holder}`);
}

export async function refused(backend: MysqlBackend, name: string): Promise<Held> {
  const answer = await backend.acquire(request(name), call());
  if ("held" in answer) return answer.held;
  throw new Error(`${name} was granted with token ${answer.grant.token}`);
}

/** Resolves once the store says so. */
export async function until(what: string, isSo: () => Promise<boolean>): Promise<void> {
  for (let waitedMs = 0; waitedMs < 10_000; waitedMs += 10) {
    if (await isSo()) return;
    await sleep(10);
  }
  throw new Error(`waited in vain until ${what}`);
}

/** Resolves once so many transactions of the server wait for a lock. */
export async function blocked(server: MariadbServer, transactions: number): Promise<void> {
  await until(`${transactions} transactions wait for locks`, async () => {
    // The table of transactions would be a copy that is kept as long as somebody looks at it.
    const [row] = await server.query<{ Value: string }>(
      "SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'",
    );
    return Number(row!.Value) === transactions;
  });
}
