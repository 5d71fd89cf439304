import { spawnSync } from "node:child_process";
import { mkdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test, vi } from "vitest";
import { StoreFiles } from "../../../src/backends/sqlite/files.js";
import type { SqliteBackend } from "../../../src/backends/sqlite/index.js";
import { platform } from "../../../src/platform/index.js";
import { startChild } from "./children.js";
import { beside, call, opened, taken, temporaryFolder } from "./folder.js";

afterEach(() => vi.restoreAllMocks());

/** The machine's runtime with a wall clock that stands still, so that time cannot hide a loss. */
function frozenWall(wallMs = 1_700_000_000_000) {
  const { clock, timers, random } = platform();
  const frozen = {
    monotonicMs: () => clock.monotonicMs(),
    uptimeMs: () => clock.uptimeMs(),
    wallMs: () => wallMs,
  };
  return { clock: frozen, timers, random };
}

async function pair(backend: SqliteBackend, name = "x"): Promise<bigint> {
  const grant = await taken(backend, name);
  expect(await backend.release([grant], call())).toEqual(["released"]);
  return grant.token;
}

function expectRising(tokens: readonly bigint[]): void {
  const bad = tokens.findIndex((token, i) => i > 0 && token <= tokens[i - 1]!);
  expect(bad, `token ${tokens[bad]} came after ${tokens[bad - 1]}`).toBe(-1);
}

test("tokens rise over release, deletion by hand, reopening and another wall clock", async () => {
  const path = join(temporaryFolder(), "locks.db");
  const tokens: bigint[] = [];
  for (const wallMs of [2_000_000_000_000, 1_000_000_000_000, 1]) {
    const backend = await opened(path, { runtime: frozenWall(wallMs) });
    tokens.push(await pair(backend), await pair(backend, "y"), await pair(backend));
    tokens.push((await taken(backend, "x")).token);
    await beside(path, (db) => db.exec("DELETE FROM tenure_lease"));
    tokens.push((await taken(backend, "x")).token);
    await beside(path, (db) => db.exec("DELETE FROM tenure_lease; DELETE FROM tenure_session"));
    tokens.push((await taken(backend, "x")).token);
    await beside(path, (db) => db.exec("DELETE FROM tenure_lease"));
    await backend.close();
  }
  expectRising(tokens);
});

test("tokens of a file that was replaced go on above those of the old one", async () => {
  const path = join(temporaryFolder(), "locks.db");
  const first = await opened(path);
  const old = await pair(first);
  await first.close();
  for (const suffix of ["", "-wal", "-shm"]) rmSync(path + suffix, { force: true });
  const second = await opened(path);
  expect(await pair(second)).toBeGreaterThan(old);
});

test("an older copy of the file put in its place does not bring old tokens back", async () => {
  const path = join(temporaryFolder(), "locks.db");
  await (await opened(path)).close();
  spawnSync("cp", [path, `${path}.backup`]);
  const backend = await opened(path);
  let last = 0n;
  for (let i = 0; i < 100; i++) last = await pair(backend);
  await backend.close();
  spawnSync("cp", [`${path}.backup`, path]);
  expect(await pair(await opened(path))).toBeGreaterThan(last);
});

test("two processes that alternate get tokens in the order of their transactions", async () => {
  const path = join(temporaryFolder(), "locks.db");
  const [a, b] = [await opened(path), await opened(path)];
  const tokens: bigint[] = [];
  for (let i = 0; i < 60; i++) {
    for (let n = 0; n <= i % 5; n++) tokens.push(await pair(i % 2 === 0 ? a : b));
  }
  expectRising(tokens);
});

test("a transaction that is rolled back does not keep its block of tokens", async () => {
  const path = join(temporaryFolder(), "locks.db");
  const [a, b] = [await opened(path), await opened(path)];
  const tokens: bigint[] = [];
  // A block ends here: the next grant of `a` takes a new one.
  for (let i = 0; i < 16; i++) tokens.push(await pair(a));
  // The block is taken first, then the insert fails.
  await beside(path, (db) =>
    db.exec(`CREATE TRIGGER refuse BEFORE INSERT ON tenure_lease WHEN NEW.name = 'refused'
      BEGIN SELECT RAISE(ABORT, 'no'); END`),
  );
  await expect(taken(a, "refused")).rejects.toThrow(/constraint/);
  for (let i = 0; i < 40; i++) tokens.push(await pair(a), await pair(b));
  expectRising(tokens);
});

test("the ceiling is raised when it is reached, and nothing is granted above it", async () => {
  const path = join(temporaryFolder(), "locks.db");
  const backend = await opened(path);
  await beside(path, (db) => db.exec("UPDATE tenure_store SET ceiling = next + 20"));
  const tokens: bigint[] = [];
  for (let i = 0; i < 60; i++) tokens.push(await pair(backend));
  expectRising(tokens);
  const [store] = await beside(path, (db) => db.prepare("SELECT * FROM tenure_store").all() as any);
  expect(store.ceiling).toBeGreaterThan(tokens.at(-1)!);
  expect(store.pending).toBeGreaterThanOrEqual(store.ceiling);
});

test("a flush that fails grants nothing above the ceiling", async () => {
  const path = join(temporaryFolder(), "locks.db");
  const backend = await opened(path);
  await beside(path, (db) => db.exec("UPDATE tenure_store SET ceiling = next"));
  const flush = vi.spyOn(StoreFiles.prototype, "flush").mockRejectedValue(new Error("EIO"));
  await expect(taken(backend, "x")).rejects.toThrow(/EIO/);
  flush.mockRestore();
  await taken(backend, "x");
});

test("after a power failure that lost all that was not flushed, no token comes again", async () => {
  const folder = temporaryFolder();
  let durable = "";
  let copies = 0;
  const flush = StoreFiles.prototype.flush;
  let live = join(folder, "0", "locks.db");
  // What is on the disk for certain: the files as they were when the last flush began. Copied by
  // another process, since closing a descriptor of the database here would drop SQLite's locks.
  vi.spyOn(StoreFiles.prototype, "flush").mockImplementation(async function (this: StoreFiles) {
    const copy = join(folder, `copy-${(copies += 1)}`);
    mkdirSync(copy);
    spawnSync("cp", [live, `${live}-wal`, copy]);
    await flush.call(this);
    durable = copy;
  });
  const tokens: bigint[] = [];
  let lostSome = 0;
  for (let boot = 0; boot < 8; boot++) {
    const place = join(folder, String(boot));
    if (boot === 0) mkdirSync(place);
    else spawnSync("cp", ["-r", durable, place]);
    live = join(place, "locks.db");
    const options = { bootId: `boot ${boot}`, runtime: frozenWall() };
    const [a, b] = [await opened(live, options), await opened(live, options)];
    for (let i = 0; i < 20 + boot * 7; i++) tokens.push(await pair(i % 3 === 0 ? a : b));
    // Low ceilings bring raising, and so flushes, into the middle of the run.
    await beside(live, (db) => db.exec("UPDATE tenure_store SET ceiling = next + 64"));
    for (let i = 0; i < 30; i++) tokens.push(await pair(i % 3 === 0 ? a : b));
    const [row] = await beside(join(durable, "locks.db"), (db) =>
      db.prepare("SELECT next FROM tenure_store").all() as any,
    );
    if (row.next <= tokens.at(-1)!) lostSome += 1;
  }
  expectRising(tokens);
  // Without this the test would show nothing: the counter that survived was behind the grants.
  expect(lostSome).toBe(8);
});

test("after a change of boot leases and waiters are gone, and the store is the same", async () => {
  const path = join(temporaryFolder(), "locks.db");
  const before = await opened(path, { bootId: "one" });
  const grant = await taken(before, "x");
  const { storeId } = before;
  await before.close();
  const after = await opened(path, { bootId: "two" });
  expect(after.storeId).toBe(storeId);
  expect(await after.inspect("x", call())).toBeNull();
  expect((await taken(after, "x")).token).toBeGreaterThan(grant.token);
});

test("tokens rise in the order of grants while processes are killed at random", async () => {
  const folder = temporaryFolder();
  const path = join(folder, "locks.db");
  const log = join(folder, "log.db");
  await beside(log, (db) => {
    db.exec("PRAGMA journal_mode = WAL");
    db.exec("CREATE TABLE log (id INTEGER PRIMARY KEY AUTOINCREMENT, token INTEGER, pid INTEGER)");
  });
  const count = () =>
    beside(log, (db) => Number((db.prepare("SELECT count(*) AS n FROM log").get() as any).n));
  let seed = 7;
  const random = (): number => (seed = (seed * 48_271) % 2_147_483_647) / 2_147_483_647;
  const work = { do: "sections", name: "x", log } as const;
  for (let round = 0; round < 4; round++) {
    const children = [startChild(), startChild(), startChild()];
    for (const child of children) await child.tell({ do: "open", path });
    const running = children.map((child) => child.tell({ ...work, times: 10_000 }).catch(String));
    const enough = (await count()) + 20 + Math.floor(random() * 30);
    while ((await count()) < enough) await new Promise((resume) => setImmediate(resume));
    await Promise.all(children.map((child) => child.kill()));
    await Promise.all(running);
  }
  const rows = await beside(log, (db) => db.prepare("SELECT token FROM log ORDER BY id").all());
  const tokens = rows.map((row: any) => row.token as bigint);
  expect(tokens.length).toBeGreaterThan(80);
  expectRising(tokens);
}, 60_000);
