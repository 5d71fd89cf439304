import { setTimeout as sleep } from "node:timers/promises";
import { Pool, type PoolConfig } from "pg";
import { onTestFinished } from "vitest";
import { postgres, type PostgresBackend, type PostgresOptions } from "../../../src/backends/postgres/open.js";
import type { AcquireRequest, Call, Grant, Held } from "../../../src/core/backend.js";
import type { PostgresServer } from "../../servers/postgres.js";

let count = 0;

/** A schema of one test. */
export const freshSchema = (): string => `test_${process.pid}_${++count}`;

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
  options: PostgresOptions = {},
): Promise<PostgresBackend> {
  const backend = await postgres(target, options);
  onTestFinished(() => backend.close());
  await backend.open!(call(10_000));
  return backend;
}

/** A pool of the caller; closed when the test ends. */
export function poolOn(server: PostgresServer, config: PoolConfig = {}): Pool {
  const pool = new Pool({ connectionString: server.url, ...config });
  pool.on("error", () => undefined);
  onTestFinished(() => pool.end());
  return pool;
}

export async function take(
  backend: PostgresBackend,
  name: string,
  wish: Partial<AcquireRequest> = {},
): Promise<Grant> {
  const answer = await backend.acquire(request(name, wish), call());
  if ("grant" in answer) return answer.grant;
  throw new Error(`${name} is held by ${answer.held.holder}`);
}

export async function refused(backend: PostgresBackend, name: string): Promise<Held> {
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

/** Resolves once so many statements of the server wait for a lock. */
export async function blocked(server: PostgresServer, statements: number): Promise<void> {
  await until(`${statements} statements wait for locks`, async () => {
    const [row] = await server.query<{ n: number }>(
      "SELECT count(*)::int AS n FROM pg_stat_activity WHERE wait_event_type = 'Lock'",
    );
    return row!.n === statements;
  });
}
