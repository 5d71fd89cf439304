import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import Database from "better-sqlite3";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { sqlite } from "../../src/backends/sqlite/open.js";
import {
  GuaranteeError,
  LeaseLostError,
  OutcomeUnknownError,
  TenureError,
  UnavailableError,
} from "../../src/core/errors.js";
import type { FencingToken, TokenBearer } from "../../src/core/token.js";
import type { Connection } from "../../src/fences/sqlite/connection.js";
import { createSqliteFence, type SqliteFence } from "../../src/fences/sqlite/index.js";
import { sqliteFence, sqliteParts } from "../../src/fences/sqlite/open.js";
import { machine } from "../../src/platform/machine.js";
import { bearer } from "./bearers.js";

describe("SQLite fence and its file", () => {
  let root: string;
  let file: string;
  let other: InstanceType<typeof Database>;
  const fences: SqliteFence[] = [];

  beforeEach(() => {
    root = mkdtempSync(path.join(tmpdir(), "tenure-fence-"));
    file = path.join(root, "app.db");
    other = new Database(file, { timeout: 0 });
    other.exec("CREATE TABLE t (v INTEGER); INSERT INTO t VALUES (0)");
  });
  afterEach(async () => {
    for (const fence of fences.splice(0)) await fence.close();
    other.close();
    rmSync(root, { recursive: true });
  });

  function keep(fence: SqliteFence): SqliteFence {
    fences.push(fence);
    return fence;
  }
  const value = (): unknown => other.prepare("SELECT v FROM t").pluck().get();
  const set = (v: number) => (tx: { run(sql: string, v: number): unknown }) =>
    void tx.run("UPDATE t SET v = ?", v);

  describe.each(["WAL", "DELETE"])("in journal mode %s", (mode) => {
    beforeEach(() => void other.pragma(`journal_mode = ${mode}`));

    it("waits for another writer without stopping the event loop", async () => {
      const own = new Database(file, { timeout: 5_000 });
      const fence = keep(sqliteFence(own));
      const handle = await fence.arm(bearer(5), "t");
      other.exec("BEGIN IMMEDIATE; UPDATE t SET v = 1");
      let turns = 0;
      const written = handle.write(set(2));
      while (turns < 20) {
        await new Promise((resolve) => setImmediate(resolve));
        turns += 1;
      }
      other.exec("COMMIT");
      await written;
      expect(value()).toBe(2);
      // The caller's connection has its own settings back.
      expect(own.pragma("busy_timeout", { simple: true })).toBe(5_000);
      expect(own.pragma("query_only", { simple: true })).toBe(0);
      own.close();
    });

    it("gives up in time, having done nothing, when the lock stays taken", async () => {
      const fence = keep(sqliteFence(file, { busyMs: 50 }));
      const handle = await fence.arm(bearer(5), "t");
      other.exec("BEGIN IMMEDIATE; UPDATE t SET v = 1");
      const error = await handle.write(set(2)).catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(UnavailableError);
      expect(error).toMatchObject({ retryable: true, backend: "sqlite" });
      other.exec("ROLLBACK");
      await handle.write(set(3));
      expect(handle.arm).toBe(1);
      expect(value()).toBe(3);
    });

    it("waits no longer than the lease has left", async () => {
      const fence = keep(sqliteFence(file, { busyMs: 60_000 }));
      const handle = await fence.arm(bearer(5, { remaining: () => 20 }), "t");
      other.exec("BEGIN IMMEDIATE");
      await expect(handle.write(set(2))).rejects.toThrow(UnavailableError);
      other.exec("ROLLBACK");
    });

    it("stops waiting when the lease's signal is aborted, with its reason", async () => {
      const fence = keep(sqliteFence(file, { busyMs: 60_000 }));
      const abort = new AbortController();
      const handle = await fence.arm(bearer(5, { signal: abort.signal }), "t");
      other.exec("BEGIN IMMEDIATE");
      const written = handle.write(set(2));
      const reason = new Error("the caller's own");
      await new Promise((resolve) => setImmediate(resolve));
      abort.abort(reason);
      await expect(written).rejects.toBe(reason);
      other.exec("ROLLBACK");
      expect(value()).toBe(0);
    });
  });

  it("waits for a transaction of the caller's own connection", async () => {
    const own = new Database(file);
    const fence = keep(sqliteFence(own));
    const handle = await fence.arm(bearer(5), "t");
    own.exec("BEGIN; UPDATE t SET v = 1");
    const written = handle.write(set(2));
    await new Promise((resolve) => setImmediate(resolve));
    expect(own.inTransaction).toBe(true);
    own.exec("ROLLBACK");
    await written;
    expect(value()).toBe(2);
    own.close();
  });

  it("cannot write in a read", async () => {
    const handle = await keep(sqliteFence(file)).arm(bearer(5), "t");
    const sneaky = handle.read((tx) => tx.all("UPDATE t SET v = 9 RETURNING v"));
    await expect(sneaky).rejects.toThrow(/readonly/);
    expect(value()).toBe(0);
  });

  it("reads integers beyond 2^53 exactly, and binds whole numbers as integers", async () => {
    const handle = await keep(sqliteFence(file)).arm(bearer(5), "t");
    await handle.write((tx) => tx.run("UPDATE t SET v = ?", 2n ** 53n + 1n));
    expect(await handle.read((tx) => tx.get("SELECT v FROM t"))).toEqual({ v: 2n ** 53n + 1n });
    const kind = await handle.read((tx) => tx.get("SELECT typeof(?) AS t", 5));
    expect(kind).toEqual({ t: "integer" });
  });

  it("is set up by many at once", async () => {
    const many = Array.from({ length: 6 }, () => keep(sqliteFence(file)));
    await Promise.all(many.map((fence, index) => fence.arm(bearer(5), `r${index}`)));
  });

  describe("when COMMIT fails", () => {
    /** A connection whose next COMMIT fails, before or after it was done. */
    function failing(after: boolean, code: string): { fence: SqliteFence; fail(): void } {
      const db = new Database(file);
      let armed = false;
      const parts = sqliteParts(db);
      const fence = createSqliteFence({
        ...parts,
        connect: async () => {
          const inner = await parts.connect();
          const connection: Connection = {
            file: inner.file,
            get inTransaction() {
              return inner.inTransaction;
            },
            exec: (sql) => inner.exec(sql),
            close: () => inner.close(),
            prepare: (sql) => {
              const statement = inner.prepare(sql);
              if (sql !== "COMMIT") return statement;
              const run = (): ReturnType<typeof statement.run> => {
                if (!armed) return statement.run();
                armed = false;
                if (after) statement.run();
                throw Object.assign(new Error("disk trouble"), { code });
              };
              return { run, get: () => undefined, all: () => [] };
            },
          };
          return connection;
        },
      });
      return { fence: keep(fence), fail: () => void (armed = true) };
    }

    it.each([true, false])("leaves the outcome open, and arms again (done: %s)", async (done) => {
      const { fence, fail } = failing(done, "SQLITE_IOERR_FSYNC");
      const handle = await fence.arm(bearer(5), "t");
      fail();
      await expect(handle.write(set(1))).rejects.toThrow(OutcomeUnknownError);
      const seen = await handle.read((tx) => tx.get("SELECT v FROM t"));
      expect(seen).toEqual({ v: done ? 1n : 0n });
      expect(handle.arm).toBe(2);
      await handle.write(set(2));
      expect(value()).toBe(2);
    });

    it("says so when a full disk undid it for certain", async () => {
      const { fence, fail } = failing(false, "SQLITE_FULL");
      const handle = await fence.arm(bearer(5), "t");
      fail();
      await expect(handle.write(set(1))).rejects.toThrow(UnavailableError);
      await handle.write(set(2));
      expect(handle.arm).toBe(1);
      expect(value()).toBe(2);
    });
  });

  it("survives a database that is really full", async () => {
    const own = new Database(file);
    const fence = keep(sqliteFence(own));
    const handle = await fence.arm(bearer(5), "t");
    const pages = Number(own.pragma("page_count", { simple: true }));
    own.pragma(`max_page_count = ${pages + 2}`);
    const big = "x".repeat(100_000);
    const error = await handle
      .write((tx) => {
        tx.run("CREATE TABLE big (x)");
        try {
          tx.run("INSERT INTO big VALUES (?)", big);
        } catch {
          // SQLite has undone everything so far; this must not land outside the transaction.
          tx.run("UPDATE t SET v = 7");
        }
      })
      .catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(Error);
    expect(value()).toBe(0);
    own.pragma("max_page_count = 1000000");
    await handle.write(set(2));
    expect(value()).toBe(2);
    own.close();
  });

  it("tells a file that is no database, and one that is missing", async () => {
    const missing = keep(sqliteFence(path.join(root, "no", "such.db")));
    await expect(missing.mark("t")).rejects.toBeInstanceOf(TenureError);
    await expect(missing.mark("t")).rejects.toThrow(/does not exist/);
    expect(() => sqliteFence(7 as never)).toThrow(TypeError);
  });

  describe("held check, with the lease in the same file", () => {
    const call = () => ({ signal: new AbortController().signal, timeoutMs: 5_000 });

    it("writes while the lease stands, and not once it was released or taken", async () => {
      other.pragma("journal_mode = WAL");
      const backend = await sqlite(file, { endWithProcess: false });
      await backend.open?.(call());
      const fence = keep(sqliteFence(file));
      const acquire = async (holder: string): Promise<TokenBearer> => {
        const answer = await backend.acquire({ name: "acct:7", holder, ttlMs: 60_000 }, call());
        if (!("grant" in answer)) throw new Error("not granted");
        return { ...answer.grant, storeId: backend.storeId };
      };
      const a = await acquire("a");
      expect(await fence.held(a, (tx) => tx.run("UPDATE t SET v = 1").changes)).toBe(1);
      await expect(fence.held({ ...a, holder: "z" }, set(9))).rejects.toThrow(LeaseLostError);
      await expect(fence.held({ ...a, name: "other" }, set(9))).rejects.toThrow(LeaseLostError);
      await expect(fence.held(a, async () => undefined)).rejects.toThrow(TypeError);

      await backend.release([a], call());
      await expect(fence.held(a, set(2))).rejects.toThrow(LeaseLostError);
      const b = await acquire("b");
      await expect(fence.held(a, set(2))).rejects.toThrow(LeaseLostError);
      await fence.held(b, set(3));
      expect(value()).toBe(3);

      // Over by its time, though nobody else has taken it.
      other.exec("UPDATE tenure_lease SET expires = 1");
      await expect(fence.held(b, set(4))).rejects.toThrow(LeaseLostError);
      // Times of another boot mean nothing.
      const c = await acquire("c");
      await fence.held(c, set(5));
      other.exec("UPDATE tenure_store SET boot = 'earlier'");
      await expect(fence.held(c, set(6))).rejects.toThrow(LeaseLostError);
      expect(value()).toBe(5);
      await backend.close();
    });

    it("is refused for a lease that ended while the file was locked by another", async () => {
      other.pragma("journal_mode = WAL");
      const backend = await sqlite(file, { endWithProcess: false });
      await backend.open?.(call());
      const answer = await backend.acquire({ name: "n", holder: "h", ttlMs: 60_000 }, call());
      if (!("grant" in answer)) throw new Error("not granted");
      const fence = keep(sqliteFence(file));
      await fence.mark("t");
      other.exec("BEGIN IMMEDIATE");
      const held = fence.held({ ...answer.grant, storeId: backend.storeId }, set(1));
      held.catch(() => undefined);
      const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
      for (let turns = 0; turns < 20; turns++) await turn();
      const { nowMs } = await machine();
      const endMs = Math.ceil(nowMs()) + 1;
      other.prepare("UPDATE tenure_lease SET expires = ?").run(endMs);
      while (nowMs() < endMs) await turn();
      other.exec("COMMIT");
      await expect(held).rejects.toThrow(LeaseLostError);
      expect(value()).toBe(0);
      await backend.close();
    });

    it("says so when the lease is kept in another file", async () => {
      const lease = { name: "n", holder: "h", token: 7n as FencingToken, storeId: "theirs" };
      const fence = keep(sqliteFence(file));
      const noLeases = await fence.held(lease, set(1)).catch((error: unknown) => error);
      expect(noLeases).toBeInstanceOf(GuaranteeError);
      expect((noLeases as Error).message).toContain(`${file} keeps no leases`);

      const backend = await sqlite(file, { endWithProcess: false });
      await backend.open?.(call());
      const others = await fence.held(lease, set(1)).catch((error: unknown) => error);
      expect(others).toBeInstanceOf(LeaseLostError);
      const said = `leases of store ${backend.storeId}, and this one is of store theirs`;
      expect((others as Error).message).toContain(said);
      const own = fence.held({ ...lease, storeId: backend.storeId }, set(1));
      await expect(own).rejects.toThrow(/token 7 of this holder$/);
      await backend.close();
    });
  });

  it("names the argument that is wrong", async () => {
    const fence = keep(sqliteFence(file));
    const wrong: readonly [option: string, call: Promise<unknown>][] = [
      ["work", fence.bypass("load", 5 as never)],
      ["work", fence.held(bearer(1), undefined as never)],
      ["options", fence.install(undefined as never)],
      ["options", fence.uninstall(null as never)],
      ["table", fence.uninstall({ table: "none" })],
    ];
    for (const [option, call] of wrong) {
      await expect(call).rejects.toMatchObject({ family: "caller", option });
    }
    const make = (): unknown => sqliteFence(file, null as never);
    expect(make).toThrow(expect.objectContaining({ option: "options" }));
  });
});
