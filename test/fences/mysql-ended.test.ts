/** Transactions that the server ends inside the work: nothing that comes after is committed. */
import { createConnection, createPool, type Connection, type Pool } from "mysql2/promise";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { mysql } from "../../src/backends/mysql/open.js";
import { OutcomeUnknownError, UnavailableError } from "../../src/core/errors.js";
import { mysqlFence, type MysqlFence, type SqlTx } from "../../src/fences/mysql/open.js";
import { describeOn } from "../servers/find.js";
import { mariadbProgram, startMariadb, type MariadbServer } from "../servers/mariadb.js";
import { rows } from "../../src/rows/open.js";
import { bearer } from "./bearers.js";

type Run = (text: string) => Promise<unknown>;

describeOn(mariadbProgram, "a transaction of the MySQL fence that was ended inside the work", () => {
  let server: MariadbServer;
  let pool: Pool;
  let other: Connection;
  let fence: MysqlFence;

  beforeAll(async () => {
    server = await startMariadb({ innodb_rollback_on_timeout: 1 });
  });
  afterAll(() => server.dispose());
  beforeEach(async () => {
    await server.query("CREATE OR REPLACE DATABASE app");
    await server.query("CREATE PROCEDURE app.done() BEGIN COMMIT; END");
    await server.query(
      `CREATE PROCEDURE app.half(seconds INT, ok INT)
        BEGIN
          UPDATE pot SET v = 'half' WHERE id = 14;
          COMMIT;
          IF seconds > 0 THEN SELECT SLEEP(seconds); END IF;
          IF ok = 0 THEN SIGNAL SQLSTATE '45000'; END IF;
        END`,
    );
    await server.query("CREATE TABLE app.pot (id INT PRIMARY KEY, v VARCHAR(9))");
    await server.query(
      "INSERT INTO app.pot WITH RECURSIVE n AS (SELECT 1 AS i UNION SELECT i + 1 FROM n " +
        "WHERE i < 20) SELECT i, '-' FROM n",
    );
    const uri = server.url.replace(/\/test$/, "/app");
    pool = createPool({ uri, connectionLimit: 2, multipleStatements: true });
    fence = mysqlFence(pool);
    other = await createConnection(uri);
    await other.query("START TRANSACTION");
    // The server gives up the transaction that has changed fewer rows.
    await other.query("UPDATE pot SET v = 'other' WHERE id BETWEEN 2 AND 9");
  });
  afterEach(async () => {
    await other.end();
    await pool.end();
  });

  const pots = async (...ids: number[]): Promise<unknown[]> => {
    const text = `SELECT v FROM app.pot WHERE id IN (${ids.join()}) ORDER BY id`;
    return (await server.query<{ v: string }>(text)).map(({ v }) => v);
  };
  /** Changes row 1, and then waits for row 2 while the other one waits for row 1. */
  async function deadlock(run: Run): Promise<void> {
    await run("UPDATE pot SET v = 'mine' WHERE id = 1");
    const crossed = other.query("UPDATE pot SET v = 'other' WHERE id = 1");
    while ((await server.query(WAITING)).length === 0) {
      await new Promise((resolve) => setTimeout(resolve, 150));
    }
    await expect(run("UPDATE pot SET v = 'mine' WHERE id = 2")).rejects.toMatchObject({
      errno: 1213,
    });
    await crossed;
    await other.query("COMMIT");
  }
  const WAITING = "SELECT 1 FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'";
  const query = (tx: SqlTx): Run => (text) => tx.query(text);
  const native = ({ native: connection }: SqlTx): Run => (text) =>
    new Promise((resolve, reject) => {
      const library = connection as {
        query(text: string, done: (error: Error | null, rows: unknown) => void): void;
      };
      library.query(text, (error, rows) => (error === null ? resolve(rows) : reject(error)));
    });
  const idOf = async (tx: SqlTx): Promise<unknown> =>
    ((await native(tx)("SELECT CONNECTION_ID() AS id")) as [{ id: number }])[0].id;
  /** Whether connections of the pool are as they were. */
  async function checkPool(): Promise<void> {
    const both = await Promise.all([pool.getConnection(), pool.getConnection()]);
    for (const one of both) {
      const [[state]] = (await one.query(
        `SELECT @@autocommit AS a, @@tx_read_only AS r, @@in_transaction AS t,
          @@wait_timeout = @@GLOBAL.wait_timeout AS w`,
      )) as unknown as [[object]];
      expect(state).toEqual({ a: 1, r: 0, t: 0, w: 1 });
      one.release();
    }
  }

  it("deadlock-in-work: commits nothing of work that goes on after a deadlock", async () => {
    const handle = await fence.arm(bearer(5), "a");
    let newer: Promise<unknown> | undefined;
    const writing = handle.write(async (tx) => {
      await deadlock(query(tx));
      // The mark is free: a newer holder arms, and what comes now would be a stale write.
      newer = fence.arm(bearer(6), "a");
      await newer;
      await tx.query("UPDATE pot SET v = 'stale' WHERE id = 2");
    });
    await expect(writing).rejects.toThrow(/the server rolled all of it back inside the work/);
    await expect(writing).rejects.toBeInstanceOf(UnavailableError);
    await newer;
    expect(await pots(1, 2)).toEqual(["other", "other"]);
    await checkPool();
  });

  it("commits nothing of work that lets a deadlock pass and says that all is well", async () => {
    const handle = await fence.arm(bearer(5), "a");
    const writing = handle.write(async (tx) => {
      await deadlock(query(tx));
      await tx.query("UPDATE pot SET v = 'mine' WHERE id = 15").catch(() => undefined);
    });
    await expect(writing).rejects.toBeInstanceOf(UnavailableError);
    expect(await pots(1, 2, 15)).toEqual(["other", "other", "-"]);
    // It was certain that nothing happened: the handle goes on as it is.
    await handle.write((tx) => tx.query("UPDATE pot SET v = 'mine' WHERE id = 15"));
    expect(handle.arm).toBe(1);
    expect(await pots(15)).toEqual(["mine"]);
  });

  it("commits nothing of a statement that was sent together with the one that failed", async () => {
    const handle = await fence.arm(bearer(5), "a");
    const writing = handle.write(async (tx) => {
      await tx.query("UPDATE pot SET v = 'mine' WHERE id = 1");
      const crossed = other.query("UPDATE pot SET v = 'other' WHERE id = 1");
      while ((await server.query(WAITING)).length === 0) {
        await new Promise((resolve) => setTimeout(resolve, 150));
      }
      await Promise.all([
        tx.query("UPDATE pot SET v = 'mine' WHERE id = 2"),
        tx.query("UPDATE pot SET v = 'mine' WHERE id = 15"),
        crossed,
      ]);
    });
    await expect(writing).rejects.toMatchObject({ errno: 1213 });
    await other.query("COMMIT");
    expect(await pots(1, 2, 15)).toEqual(["other", "other", "-"]);
    await checkPool();
  });

  it("commits nothing after a deadlock that only the library's own connection met", async () => {
    const handle = await fence.arm(bearer(5), "a");
    const writing = handle.write(async (tx) => {
      await deadlock(native(tx));
      await native(tx)("UPDATE pot SET v = 'stale' WHERE id IN (2, 15)");
    });
    await expect(writing).rejects.toBeInstanceOf(OutcomeUnknownError);
    expect(await pots(1, 2, 15)).toEqual(["other", "other", "-"]);
    await checkPool();
  });

  it("commits nothing after a wait for a lock that rolled back all", async () => {
    const handle = await fence.arm(bearer(5), "a");
    const writing = handle.write(async (tx) => {
      await tx.query("SET SESSION innodb_lock_wait_timeout = 1");
      await tx.query("UPDATE pot SET v = 'mine' WHERE id = 1");
      const late = tx.query("UPDATE pot SET v = 'mine' WHERE id = 2");
      await expect(late).rejects.toMatchObject({ errno: 1205 });
      await tx.query("UPDATE pot SET v = 'mine' WHERE id = 15");
    });
    await expect(writing).rejects.toThrow(/inside the work/);
    expect(await pots(1, 15)).toEqual(["-", "-"]);
    await checkPool();
  });

  it("within: tells that the caller's transaction was ended inside the work", async () => {
    const handle = await fence.arm(bearer(5), "a");
    const own = await pool.getConnection();
    const run: Run = (text) => own.query(text);
    const within = (work: () => Promise<unknown>): Promise<unknown> =>
      fence.within(own, handle, work);
    await own.beginTransaction();
    const caught = within(async () => {
      await deadlock(run);
      await run("UPDATE pot SET v = 'alone' WHERE id = 15");
    });
    await expect(caught).rejects.toBeInstanceOf(OutcomeUnknownError);
    await own.rollback();
    expect(await pots(1, 15)).toEqual(["other", "alone"]);
    await own.beginTransaction();
    const failing = within(async () => {
      await run("UPDATE pot SET v = 'half' WHERE id = 14");
      await run("COMMIT");
      throw new Error("boom");
    });
    await expect(failing).rejects.toMatchObject({ family: "unknown", cause: { message: "boom" } });
    await own.rollback();
    // A conflict that is let through has undone all: it is the library's own error.
    await own.beginTransaction();
    await other.query("START TRANSACTION");
    await other.query("UPDATE pot SET v = 'other' WHERE id BETWEEN 2 AND 9");
    const through = within(async () => {
      await run("SET SESSION innodb_lock_wait_timeout = 1");
      await run("UPDATE pot SET v = 'mine' WHERE id = 2");
    });
    await expect(through).rejects.toMatchObject({ errno: 1205 });
    await own.rollback();
    await other.query("ROLLBACK");
    // Savepoints of the caller's, two resources one inside the other; it goes on.
    const second = await fence.arm(bearer(5), "b");
    await own.beginTransaction();
    await within(async () => {
      await run("SAVEPOINT s");
      await run("UPDATE pot SET v = 'gone' WHERE id = 16");
      await run("ROLLBACK TO s");
      await fence.within(own, second, () => run("UPDATE pot SET v = 'mine' WHERE id = 17"));
    });
    await own.commit();
    expect(await pots(16, 17)).toEqual(["-", "mine"]);
    own.release();
  });

  it("held check: commits nothing after a deadlock", async () => {
    const backend = await mysql(pool);
    const call = { signal: new AbortController().signal, timeoutMs: 20_000 };
    await backend.open?.(call);
    const answer = await backend.acquire({ name: "n", holder: "h", ttlMs: 60_000 }, call);
    if (!("grant" in answer)) throw new Error("not granted");
    const lease = { ...bearer(1), ...answer.grant, storeId: backend.storeId };
    const writing = fence.held(lease, async (tx) => {
      await deadlock(query(tx));
      await backend.break(lease.name, lease.token, call);
      await native(tx)("UPDATE pot SET v = 'stale' WHERE id IN (2, 15)");
    });
    await expect(writing).rejects.toThrow(/inside the work/);
    expect(await pots(1, 2, 15)).toEqual(["other", "other", "-"]);
    await backend.close();
  });

  it.each([
    "/* x */ CREATE TABLE IF NOT EXISTS more (id INT)", "-- x\nCOMMIT", "# x\nCOMMIT", ";COMMIT",
    "SELECT 1; COMMIT", "/*! COMMIT */", "/*M! COMMIT */", "FLUSH TABLES", "SET autocommit = 1",
    "SET PASSWORD = PASSWORD('')", "CHECK TABLE pot", "RESET QUERY CACHE",
  ])("refuses %j before anything is sent", async (text) => {
    const handle = await fence.arm(bearer(5), "a");
    for (const step of ["read", "write"] as const) {
      const work = handle[step](async (tx) => {
        await tx.query(text);
      });
      await expect(work).rejects.toThrow(/the fence begins and ends the transaction/);
    }
  });

  it.each(["CALL done()", "BEGIN NOT ATOMIC COMMIT; END", "SELECT 1; COMMIT", "FLUSH TABLES"])(
    "tells that %j has ended it, and commits nothing more",
    async (text) => {
      const handle = await fence.arm(bearer(5), "a");
      const run = text.startsWith("CALL") ? query : native;
      const writing = handle.write(async (tx) => {
        await tx.query("UPDATE pot SET v = 'half' WHERE id = 14");
        await run(tx)(text).catch(() => undefined);
        await fence.arm(bearer(6), "a");
        await native(tx)("UPDATE pot SET v = 'stale' WHERE id = 15");
      });
      await expect(writing).rejects.toThrow(/was ended inside the work.* may be committed/);
      await expect(writing).rejects.toBeInstanceOf(OutcomeUnknownError);
      expect(await pots(14, 15)).toEqual(["half", "-"]);
      await checkPool();
    },
  );

  it("tells it also where the work throws, which says that nothing is left of it", async () => {
    const handle = await fence.arm(bearer(5), "a");
    const writing = handle.write(async (tx) => {
      await tx.query("UPDATE pot SET v = 'half' WHERE id = 14");
      await native(tx)("FLUSH TABLES");
      throw new Error("boom");
    });
    const error = await writing.catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(OutcomeUnknownError);
    expect(error).toMatchObject({ cause: { message: "boom" } });
    // The handle arms again, as after every unknown outcome.
    expect(await handle.read((tx) => tx.query("SELECT v FROM pot WHERE id = 14"))).toEqual([
      { v: "half" },
    ]);
    expect(handle.arm).toBe(2);
  });

  /** Commits a row in a procedure, then goes wrong in some other way. */
  const wrongs: readonly [string, (tx: SqlTx) => Promise<unknown>][] = [
    [
      "a wait for a lock",
      async (tx) => {
        await tx.query("CALL half(0, 1)");
        await tx.query("SET SESSION innodb_lock_wait_timeout = 1");
        await tx.query("UPDATE pot SET v = 'mine' WHERE id = 2");
      },
    ],
    [
      "a wait for a lock, on the library's own connection",
      async (tx) => {
        await native(tx)("CALL half(0, 1)");
        await native(tx)("SET SESSION innodb_lock_wait_timeout = 1");
        await native(tx)("UPDATE pot SET v = 'mine' WHERE id = 2");
      },
    ],
    ["a refusal by the procedure", (tx) => tx.query("CALL half(0, 0)")],
    [
      "time that is over between two statements",
      async (tx) => {
        await tx.query("CALL half(0, 1)");
        await new Promise(() => undefined);
      },
    ],
    [
      "time that is over, in a statement behind another",
      async (tx) => {
        await tx.query("SAVEPOINT s; CALL half(0, 1)").catch(() => undefined);
        await new Promise(() => undefined);
      },
    ],
    ["time that is over within the procedure", (tx) => tx.query("CALL half(60, 1)")],
    [
      "time that is over, on the library's own connection",
      async (tx) => {
        await native(tx)("CALL half(0, 1)");
        await new Promise(() => undefined);
      },
    ],
    [
      "the end of the session",
      async (tx) => {
        const [row] = await tx.query<{ id: number }>("SELECT CONNECTION_ID() AS id");
        await tx.query("CALL half(0, 1)");
        await server.query(`KILL CONNECTION ${row!.id}`);
        await tx.query("UPDATE pot SET v = 'mine' WHERE id = 15");
      },
    ],
    [
      "the end of the session, which the work does not meet",
      async (tx) => {
        const [row] = await tx.query<{ id: number }>("SELECT CONNECTION_ID() AS id");
        await tx.query("CALL half(0, 1)");
        await server.query(`KILL CONNECTION ${row!.id}`);
      },
    ],
  ];

  it.each(wrongs)("tells as unknown what a procedure committed before %s", async (_, wrong) => {
    const inTime = mysqlFence(pool, { transactionMs: 3_000 });
    const handle = await inTime.arm(bearer(5), "a");
    await expect(handle.write(wrong)).rejects.toBeInstanceOf(OutcomeUnknownError);
    expect(await pots(14, 15)).toEqual(["half", "-"]);
    await server.query("UPDATE app.pot SET v = '-' WHERE id = 14");
    const db = await rows(pool, { timeout: 3_000 });
    await expect(db.transaction(wrong)).rejects.toBeInstanceOf(OutcomeUnknownError);
    expect(await pots(14, 15)).toEqual(["half", "-"]);
    await checkPool();
  });

  it("knows that nothing happened where nothing that was sent can commit", async () => {
    const handle = await mysqlFence(pool, { transactionMs: 3_000 }).arm(bearer(5), "a");
    const late = async (tx: SqlTx): Promise<void> => {
      await tx.query("UPDATE pot SET v = 'mine' WHERE id = 14");
      await new Promise(() => undefined);
    };
    await expect(handle.write(late)).rejects.toThrow(/it was rolled back/);
    const db = await rows(pool, { timeout: 3_000 });
    await expect(db.transaction(late)).rejects.toThrow(/it was rolled back/);
    expect(await pots(14)).toEqual(["-"]);
  });

  it("goes on after a statement that failed alone, and was caught", async () => {
    const handle = await fence.arm(bearer(5), "a");
    await handle.write(async (tx) => {
      const again = tx.query("INSERT INTO pot VALUES (14, 'twice')");
      await expect(again).rejects.toMatchObject({ errno: 1062 });
      await tx.query("UPDATE pot SET v = 'mine' WHERE id = 14");
    });
    expect(await pots(14)).toEqual(["mine"]);
  });

  it("lets a read write nothing, also where its transaction was ended", async () => {
    const handle = await fence.arm(bearer(5), "a");
    const reading = handle.read(async (tx) => {
      const run = native(tx);
      await run("COMMIT");
      await run("UPDATE pot SET v = 'read' WHERE id = 14");
    });
    await expect(reading).rejects.toMatchObject({ family: "unknown", cause: { errno: 1792 } });
    const second = handle.read(async (tx) => {
      const run = native(tx);
      await run("COMMIT; SET SESSION tx_read_only = 0");
      await run("UPDATE pot SET v = 'read' WHERE id = 14");
    });
    await expect(second).rejects.toThrow(/was ended inside the work: .* may be committed/);
    await expect(second).rejects.toBeInstanceOf(OutcomeUnknownError);
    expect(await pots(14)).toEqual(["-"]);
    await checkPool();
    // Nothing of the read is open: the handle goes on with its arming.
    await handle.write((tx) => tx.query("UPDATE pot SET v = 'mine' WHERE id = 14"));
    expect(handle.arm).toBe(1);
  });

  it("knows of a read that was cut off whether it can have done anything", async () => {
    const inTime = mysqlFence(pool, { transactionMs: 3_000 });
    const handle = await inTime.arm(bearer(5), "a");
    const killing = async (tx: SqlTx): Promise<void> => {
      const [row] = await tx.query<{ id: number }>("SELECT CONNECTION_ID() AS id");
      await server.query(`KILL CONNECTION ${row!.id}`);
    };
    await expect(handle.read(killing)).rejects.toBeInstanceOf(UnavailableError);
    const leaving = handle.read(async (tx) => {
      await native(tx)("COMMIT; SET SESSION tx_read_only = 0, autocommit = 1");
      await native(tx)("UPDATE pot SET v = 'after' WHERE id = 14");
      await server.query(`KILL CONNECTION ${String(await idOf(tx))}`);
    });
    await expect(leaving).rejects.toBeInstanceOf(OutcomeUnknownError);
    expect(await pots(14)).toEqual(["after"]);
  });

  it("keeps few statements prepared, however many texts the work sends", async () => {
    const handle = await fence.arm(bearer(5), "a");
    const prepared = async (): Promise<number> => {
      const text = "SHOW GLOBAL STATUS LIKE 'Prepared_stmt_count'";
      return Number((await server.query<{ Value: string }>(text))[0]?.Value);
    };
    await handle.write(async (tx) => {
      for (let i = 0; i < 500; i++) expect(await tx.query(`SELECT ${i} AS i`)).toEqual([{ i }]);
      expect(await tx.query("SELECT ? AS i", [7])).toEqual([{ i: 7 }]);
      const many = Array.from({ length: 300 }, (_, i) => tx.query(`SELECT ${i % 150} + 0 AS i`));
      expect((await Promise.all(many)).map(([row]) => row)).toEqual(
        Array.from({ length: 300 }, (_, i) => ({ i: i % 150 })),
      );
    });
    expect(await prepared()).toBeLessThan(250);
    // Sent at once, most of them are still to be prepared when the first is answered.
    for (const round of [1, 2]) {
      await handle.write(async (tx) => {
        const texts = Array.from({ length: 500 }, (_, i) => `SELECT ${i} AS at_once_${round}`);
        const answers = await Promise.all(texts.map((text) => tx.query(text)));
        expect(answers.at(-1)).toEqual([{ [`at_once_${round}`]: 499 }]);
      });
    }
    expect(await prepared()).toBeLessThan(250);
    // A statement that the server refuses to run is prepared all the same.
    await handle.write(async (tx) => {
      const texts = Array.from({ length: 300 }, (_, i) => `INSERT INTO pot VALUES (14, ${i})`);
      const answers = await Promise.allSettled(texts.map((text) => tx.query(text)));
      expect(answers.every(({ status }) => status === "rejected")).toBe(true);
    });
    expect(await prepared()).toBeLessThan(250);
  });
});
