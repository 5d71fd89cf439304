import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import Database from "better-sqlite3";
import { describe } from "vitest";
import type { SqliteReadTx, SqliteTx } from "../../src/fences/sqlite/connection.js";
import { sqliteParts } from "../../src/fences/sqlite/open.js";
import { Opener, sqliteStore } from "../../src/fences/sqlite/store.js";
import { fenceSuite } from "./suite.js";

describe.each(["path", "database"] as const)("sqlite fence on a %s", (kind) => {
  fenceSuite<SqliteTx, SqliteReadTx>({
    name: "sqlite",
    work: "sync",
    open: async () => {
      const root = await mkdtemp(path.join(tmpdir(), "tenure-fence-"));
      const file = path.join(root, "app.db");
      const db = new Database(file);
      db.pragma("journal_mode = WAL");
      db.exec("CREATE TABLE account (id TEXT PRIMARY KEY, value INTEGER) WITHOUT ROWID");
      const opener = new Opener(sqliteParts(kind === "path" ? file : db), 2_000);
      return {
        store: sqliteStore(opener),
        get: (tx, id) => {
          const row = tx.get("SELECT value FROM account WHERE id = ?", id);
          return row === undefined ? undefined : Number(row["value"]);
        },
        put: (tx, id, value) => {
          tx.run("INSERT OR REPLACE INTO account (id, value) VALUES (?, ?)", id, value);
        },
        loseMark: async (resource) => {
          db.exec("DROP TRIGGER IF EXISTS tenure_fence_mark_stays");
          db.prepare("DELETE FROM tenure_fence_mark WHERE resource = ?").run(resource);
        },
        close: async () => {
          await opener.close();
          db.close();
          await rm(root, { recursive: true });
        },
      };
    },
  });
});
