import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { onTestFinished } from "vitest";
import type { AcquireRequest, Call, Grant, Held } from "../../../src/core/backend.js";
import type { SqliteBackend } from "../../../src/backends/sqlite/index.js";
import { sqlite, type SqliteOptions } from "../../../src/backends/sqlite/open.js";
import type { SqliteDatabase } from "../../../src/drivers/sqlite/database.js";
import { openSqlite } from "../../../src/drivers/sqlite/open.js";

/** A folder of this test, removed with everything in it when the test ends. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "tenure-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

/** A call that waits for `timeoutMs`. */
export function call(timeoutMs = 2_000, signal: AbortSignal = new AbortController().signal): Call {
  return { timeoutMs, signal };
}

/** An open backend, closed when the test ends. */
export async function opened(path: string, options?: SqliteOptions): Promise<SqliteBackend> {
  const backend = await sqlite(path, options);
  onTestFinished(() => backend.close());
  await backend.open!(call());
  return backend;
}

let holders = 0;

/** A request of a holder that nobody else is. */
export function request(name: string, ttlMs = 30_000): AcquireRequest {
  holders += 1;
  return { name, holder: `holder-${process.pid}-${holders}`, ttlMs };
}

/** A grant of a free name. */
export async function taken(backend: SqliteBackend, name: string, ttlMs?: number): Promise<Grant> {
  const answer = await backend.acquire(request(name, ttlMs), call());
  if ("grant" in answer) return answer.grant;
  throw new Error(`${name} is held by ${answer.held.holder}`);
}

/** Who holds a name that is not free. */
export async function refused(backend: SqliteBackend, name: string): Promise<Held> {
  const answer = await backend.acquire(request(name), call());
  if ("held" in answer) return answer.held;
  throw new Error(`${name} was granted`);
}

/** Runs `work` on a connection of its own. */
export async function beside<R>(path: string, work: (db: SqliteDatabase) => R): Promise<R> {
  const db = await openSqlite(path);
  db.exec("PRAGMA busy_timeout = 2000");
  try {
    return work(db);
  } finally {
    db.close();
  }
}
