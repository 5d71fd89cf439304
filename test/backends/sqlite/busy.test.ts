import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { UnavailableError } from "../../../src/core/errors.js";
import { openSqlite } from "../../../src/drivers/sqlite/open.js";
import { startChild } from "./children.js";
import { beside, call, opened, request, taken, temporaryFolder } from "./folder.js";

const LIMIT_MS = 10_000;

test("a locked database delays calls, not the event loop", async () => {
  const path = join(temporaryFolder(), "locks.db");
  const backend = await opened(path);
  const grant = await taken(backend, "held");
  const other = await openSqlite(path);
  other.exec("BEGIN IMMEDIATE");
  const calls = [
    Promise.resolve(backend.acquire(request("x"), call(LIMIT_MS))),
    Promise.resolve(backend.renew([grant], call(LIMIT_MS))),
    Promise.resolve(backend.break("other", 1n, call(LIMIT_MS))),
  ] as const;
  // Looking needs no lock.
  expect(await backend.inspect("held", call())).toMatchObject({ token: grant.token });
  let settled = 0;
  for (const one of calls) one.then(() => (settled += 1), () => (settled += 1));
  // Half a second of turns. If calls waited inside SQLite, each turn would take as long as such a
  // wait, and they would have given up long before the last.
  for (let turns = 0; turns < 100; turns++) await sleep(5);
  expect(settled).toBe(0);
  other.exec("ROLLBACK");
  const [acquired, renewed] = await Promise.all(calls);
  expect(acquired).toHaveProperty("grant");
  expect(renewed).toEqual(["renewed"]);
  other.close();
});

test("a process stopped inside a transaction makes others unavailable, in their time", async () => {
  const path = join(temporaryFolder(), "locks.db");
  const backend = await opened(path);
  const child = startChild();
  await child.tell({ do: "stop-in-transaction", path });
  child.process.kill("SIGSTOP");
  const startMs = performance.now();
  const acquiring = Promise.resolve(backend.acquire(request("x"), call(400)));
  const error = await acquiring.catch((caught: unknown) => caught);
  expect(error).toBeInstanceOf(UnavailableError);
  expect(error).toMatchObject({ retryable: true, message: expect.stringContaining("locked") });
  expect(performance.now() - startMs).toBeLessThan(1_000);
  // It certainly did not happen, and it can be done once the lock is gone.
  expect(await backend.inspect("x", call())).toBeNull();
  await child.kill();
  await taken(backend, "x");
});

test("a call whose signal aborts while the database is locked ends with the signal's reason", async () => {
  const path = join(temporaryFolder(), "locks.db");
  const backend = await opened(path);
  const other = await openSqlite(path);
  other.exec("BEGIN IMMEDIATE");
  const controller = new AbortController();
  const reason = new Error("enough");
  const acquiring = backend.acquire(request("x"), call(5_000, controller.signal));
  await sleep(30);
  controller.abort(reason);
  await expect(acquiring).rejects.toBe(reason);
  other.exec("ROLLBACK");
  other.close();
  await taken(backend, "x");
});

test("calls of one process that find the database locked are served in order of arrival", async () => {
  const path = join(temporaryFolder(), "locks.db");
  const backend = await opened(path);
  const other = await openSqlite(path);
  other.exec("BEGIN IMMEDIATE");
  const order: number[] = [];
  const calls = Array.from({ length: 20 }, async (_, i) => {
    await backend.acquire(request(`n${i}`), call(5_000));
    order.push(i);
  });
  await sleep(30);
  other.exec("ROLLBACK");
  await Promise.all(calls);
  other.close();
  expect(order).toEqual(Array.from({ length: 20 }, (_, i) => i));
});

test("four processes that queue for one name get equal shares", async () => {
  const folder = temporaryFolder();
  const path = join(folder, "locks.db");
  const log = join(folder, "log.db");
  await beside(log, (db) => {
    db.exec("PRAGMA journal_mode = WAL");
    db.exec("CREATE TABLE log (id INTEGER PRIMARY KEY AUTOINCREMENT, token INTEGER, pid INTEGER)");
  });
  const children = Array.from({ length: 4 }, () => startChild());
  for (const child of children) await child.tell({ do: "open", path });
  const work = { do: "sections", name: "x", times: 60, log } as const;
  await Promise.all(children.map((child) => child.tell(work)));
  const rows = await beside(log, (db) => db.prepare("SELECT pid FROM log ORDER BY id").all());
  // While all four want it: one that is started late, or ends early, has no share then.
  const all = rows.map((row: any) => Number(row.pid));
  const each = [...new Set(all)];
  expect(each).toHaveLength(4);
  const from = Math.max(...each.map((pid) => all.indexOf(pid)));
  const to = Math.min(...each.map((pid) => all.lastIndexOf(pid)));
  const pids = all.slice(from, to);
  expect(pids.length).toBeGreaterThan(60);
  const counts = new Map<number, number>();
  for (const pid of pids) counts.set(pid, (counts.get(pid) ?? 0) + 1);
  for (const count of counts.values()) expect(count / (pids.length / 4)).toBeGreaterThan(0.7);
  // Each section flushes to the disk, which others may keep busy.
}, 180_000);
