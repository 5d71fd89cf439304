/** Transactions on SQLite that the work ends: it is told, and nothing of another is committed. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import Database from "better-sqlite3";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { OutcomeUnknownError } from "../../src/core/errors.js";
import { sqliteFence, type SqliteFence } from "../../src/fences/sqlite/open.js";
import { rows, type Rows } from "../../src/rows/open.js";
import { bearer } from "./bearers.js";

describe("a transaction on SQLite that was ended inside the work", () => {
  let root: string;
  let own: InstanceType<typeof Database>;
  let fence: SqliteFence;
  let store: Rows<"sqlite">;

  beforeEach(async () => {
    root = mkdtempSync(path.join(tmpdir(), "tenure-ended-"));
    own = new Database(path.join(root, "app.db"));
    own.exec("PRAGMA journal_mode = WAL; CREATE TABLE pot (id INTEGER PRIMARY KEY, v TEXT)");
    own.exec("INSERT INTO pot VALUES (1, '-'), (2, '-')");
    fence = sqliteFence(own);
    store = await rows(own);
  });
  afterEach(async () => {
    await fence.close();
    own.close();
    rmSync(root, { recursive: true });
  });

  const pots = (): unknown => own.prepare("SELECT v FROM pot ORDER BY id").pluck().all();

  it.each([
    "/* x */ COMMIT", "-- x\nCOMMIT", ";COMMIT", "SELECT 1; COMMIT; BEGIN", "ROLLBACK -- TO",
    "UPDATE pot SET v = 'x'; END",
  ])("is refused for %j before anything runs", async (text) => {
    const handle = await fence.arm(bearer(5), "a");
    await expect(handle.write((tx) => tx.exec(text))).rejects.toThrow(/begins and ends/);
    await expect(store.transaction((tx) => tx.exec(text))).rejects.toThrow(/begins and ends/);
    expect(pots()).toEqual(["-", "-"]);
  });

  it("still makes triggers, which have an END of their own", async () => {
    const handle = await fence.arm(bearer(5), "a");
    await handle.write((tx) => {
      tx.exec(
        "CREATE TRIGGER both AFTER UPDATE ON pot WHEN NEW.id = 1 BEGIN " +
          "UPDATE pot SET v = CASE WHEN 1 THEN NEW.v END WHERE id = 2; END; " +
          "UPDATE pot SET v = 'x' WHERE id = 1",
      );
    });
    expect(pots()).toEqual(["x", "x"]);
  });

  const runs = {
    fence: async (work: () => void) => await (await fence.arm(bearer(5, { holder: "h" }), "a")).write(() => work()),
    rows: (work: () => void) => store.transaction(() => work()),
  };

  describe.each(["fence", "rows"] as const)("of %s", (kind) => {
    it("commits nothing of one that was begun inside, and tells it", async () => {
      const writing = runs[kind](() => {
        own.exec("UPDATE pot SET v = 'half' WHERE id = 1; COMMIT; BEGIN");
        own.exec("UPDATE pot SET v = 'stale' WHERE id = 2");
      });
      await expect(writing).rejects.toThrow(/the transaction was ended inside the work/);
      await expect(writing).rejects.toBeInstanceOf(OutcomeUnknownError);
      expect(pots()).toEqual(["half", "-"]);
      expect(own.inTransaction).toBe(false);
    });

    it("tells it also where the work throws", async () => {
      const writing = runs[kind](() => {
        own.exec("UPDATE pot SET v = 'half' WHERE id = 1; COMMIT");
        throw new Error("boom");
      });
      await expect(writing).rejects.toMatchObject({
        family: "unknown",
        cause: { message: "boom" },
      });
      const failing = runs[kind](() => {
        own.exec("UPDATE pot SET v = 'mine' WHERE id = 2; SAVEPOINT a");
        throw new Error("boom");
      });
      await expect(failing).rejects.toThrow(/^boom$/);
      expect(pots()).toEqual(["half", "-"]);
    });
  });

  it("writes nothing in a read", async () => {
    const handle = await fence.arm(bearer(5), "a");
    const reading = handle.read(() => own.exec("COMMIT; BEGIN"));
    await expect(reading).rejects.toBeInstanceOf(OutcomeUnknownError);
    const writing = handle.read((tx) => {
      own.exec("COMMIT");
      return tx.get("UPDATE pot SET v = 'read' RETURNING v");
    });
    await expect(writing).rejects.toThrow(/ended/);
    expect(pots()).toEqual(["-", "-"]);
  });
});
