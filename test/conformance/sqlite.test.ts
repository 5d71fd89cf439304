import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { SqliteProof } from "../../src/backends/sqlite/index.js";
import { sqlite } from "../../src/backends/sqlite/open.js";
import { Tenure } from "../../src/core/tenure.js";
import type { SqliteDatabase } from "../../src/drivers/sqlite/database.js";
import { openSqlite } from "../../src/drivers/sqlite/open.js";
import { platform } from "../../src/platform/index.js";
import { runConformance } from "../../src/testing/conformance.js";
import { realTime, type Subject } from "../../src/testing/subject.js";
import { vitestRunner } from "./vitest-runner.js";

/** Sockets and timers that keep the process alive; not the tail of a request that was answered. */
const handles = (): number =>
  process.getActiveResourcesInfo().filter((kind) => /Wrap|Timeout|Immediate/.test(kind)).length;

/** The sqlite backend on real files, each case with a file of its own. */
const subject: Subject = {
  time: realTime(sleep),
  connect: (backend) => Tenure.open(backend, platform(), { purpose: "efficiency" }),
  shortTtlMs: 200,
  async open() {
    const folder = mkdtempSync(join(tmpdir(), "tenure-"));
    const path = join(folder, "locks.db");
    const handlesBefore = handles();
    let boot = 1;
    const beside = async <R>(work: (db: SqliteDatabase) => R): Promise<R> => {
      const db = await openSqlite(path);
      try {
        return work(db);
      } finally {
        db.close();
      }
    };
    return {
      connect: () => sqlite(path, { bootId: `boot ${boot}` }),
      restart: async () => void (boot += 1),
      deleteRecord: (name) =>
        beside((db) => void db.prepare("DELETE FROM tenure_lease WHERE name = ?").run(name)),
      sweep: () => beside((db) => db.exec("DELETE FROM tenure_lease WHERE session = -1")),
      async presetToken(_name, token) {
        const first = await sqlite(path, { bootId: `boot ${boot}` });
        await first.open!({ timeoutMs: 1_000, signal: new AbortController().signal });
        await first.close();
        await beside((db) => db.prepare("UPDATE tenure_store SET next = ?").run(token));
      },
      testProof: (proof) => {
        const { sql, values } = proof as SqliteProof;
        return beside((db) => db.prepare(sql).all(...values).length === 1);
      },
      openHandles: () => handles() - handlesBefore,
      dispose: async () => rmSync(folder, { recursive: true, force: true }),
    };
  },
};

await runConformance(subject, vitestRunner("sqlite"));
