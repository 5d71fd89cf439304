/** Transactions that the server ends inside the work: nothing that comes after is committed. */
import { expect, it } from "vitest";
import { mysql } from "../../src/backends/mysql/open.js";
import { OutcomeUnknownError, UnavailableError } from "../../src/core/errors.js";
import { describeOn } from "../servers/find.js";
import { mariadbProgram } from "../servers/mariadb.js";
import { bearer } from "./bearers.js";
import { usePots, WAITING, type Run } from "./mysql-pots.js";

/** A promise, and what resolves it. */
function promised(): { readonly promise: Promise<void>; resolve(): void } {
  let resolve!: () => void;
  const promise = new Promise<void>((done) => (resolve = done));
  return { promise, resolve: () => resolve() };
}

describeOn(mariadbProgram, "a transaction of the MySQL fence that was ended inside the work", () => {
  const rig = usePots();
  const { pots, deadlock, query, native, checkPool } = rig;

  it("deadlock-in-work: commits nothing of work that goes on after a deadlock", async () => {
    const handle = await rig.fence.arm(bearer(5), "a");
    let newer: Promise<unknown> | undefined;
    const writing = handle.write(async (tx) => {
      await deadlock(query(tx));
      // The mark is free: a newer holder arms, and what comes now would be a stale write.
      newer = rig.fence.arm(bearer(6), "a");
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
    const handle = await rig.fence.arm(bearer(5), "a");
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
    const handle = await rig.fence.arm(bearer(5), "a");
    const writing = handle.write(async (tx) => {
      await tx.query("UPDATE pot SET v = 'mine' WHERE id = 1");
      const crossed = rig.other.query("UPDATE pot SET v = 'other' WHERE id = 1");
      while ((await rig.server.query(WAITING)).length === 0) {
        await new Promise((resolve) => setTimeout(resolve, 150));
      }
      await Promise.all([
        tx.query("UPDATE pot SET v = 'mine' WHERE id = 2"),
        tx.query("UPDATE pot SET v = 'mine' WHERE id = 15"),
        crossed,
      ]);
    });
    await expect(writing).rejects.toMatchObject({ errno: 1213 });
    await rig.other.query("COMMIT");
    expect(await pots(1, 2, 15)).toEqual(["other", "other", "-"]);
    await checkPool();
  });

  it("commits nothing after a deadlock that only the library's own connection met", async () => {
    const handle = await rig.fence.arm(bearer(5), "a");
    const writing = handle.write(async (tx) => {
      await deadlock(native(tx));
      await native(tx)("UPDATE pot SET v = 'stale' WHERE id IN (2, 15)");
    });
    await expect(writing).rejects.toBeInstanceOf(OutcomeUnknownError);
    expect(await pots(1, 2, 15)).toEqual(["other", "other", "-"]);
    await checkPool();
  });

  it("commits nothing after a wait for a lock that rolled back all", async () => {
    const handle = await rig.fence.arm(bearer(5), "a");
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
    const handle = await rig.fence.arm(bearer(5), "a");
    const own = await rig.pool.getConnection();
    const run: Run = (text) => own.query(text);
    const within = (work: () => Promise<unknown>): Promise<unknown> =>
      rig.fence.within(own, handle, work);
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
    await rig.other.query("START TRANSACTION");
    await rig.other.query("UPDATE pot SET v = 'other' WHERE id BETWEEN 2 AND 9");
    const through = within(async () => {
      await run("SET SESSION innodb_lock_wait_timeout = 1");
      await run("UPDATE pot SET v = 'mine' WHERE id = 2");
    });
    await expect(through).rejects.toMatchObject({ errno: 1205 });
    await own.rollback();
    await rig.other.query("ROLLBACK");
    // Savepoints of the caller's, two resources one inside the other; it goes on.
    const second = await rig.fence.arm(bearer(5), "b");
    await own.beginTransaction();
    await within(async () => {
      await run("SAVEPOINT s");
      await run("UPDATE pot SET v = 'gone' WHERE id = 16");
      await run("ROLLBACK TO s");
      await rig.fence.within(own, second, () => run("UPDATE pot SET v = 'mine' WHERE id = 17"));
    });
    await own.commit();
    expect(await pots(16, 17)).toEqual(["-", "mine"]);
    own.release();
  });

  it("within: leaves savepoints that were set inside the work, as far as answers have flags", async () => {
    const handle = await rig.fence.arm(bearer(5), "a");
    const own = await rig.pool.getConnection();
    await own.beginTransaction();
    await rig.fence.within(own, handle, async () => {
      await own.query("UPDATE pot SET v = 'kept' WHERE id = 16");
      await own.query("SAVEPOINT mine");
      await own.query("UPDATE pot SET v = 'gone' WHERE id = 17");
    });
    await own.query("ROLLBACK TO mine");
    await own.commit();
    expect(await pots(16, 17)).toEqual(["kept", "-"]);
    own.release();
  });

  const UNFLAGGED = ["rows alone", "autocommit off"];
  it.each(UNFLAGGED)("within: two cross on one connection, with %s", async (how) => {
    const handles = [await rig.fence.arm(bearer(5), "a"), await rig.fence.arm(bearer(5), "b")];
    const own = await rig.pool.getConnection();
    const run = async (text: string, values: unknown[]): Promise<unknown> => {
      const [rows] = await own.query(text, values);
      return Array.isArray(rows) ? rows : [];
    };
    const tx = how === "rows alone" ? run : own;
    type Ends = PromiseSettledResult<unknown>[];
    const crossed = async (work: () => Promise<unknown>): Promise<Ends> => {
      const first = promised();
      const second = promised();
      const begun = promised();
      const one = rig.fence.within(tx, handles[0]!, async () => {
        begun.resolve();
        await first.promise;
      });
      await begun.promise;
      const two = rig.fence.within(tx, handles[1]!, async () => {
        first.resolve();
        await second.promise;
      });
      await Promise.allSettled([one]);
      await work();
      second.resolve();
      return await Promise.allSettled([one, two]);
    };
    if (how === "autocommit off") await own.query("SET autocommit = 0");
    await own.beginTransaction();
    const ok = await crossed(() => own.query("UPDATE pot SET v = 'mine' WHERE id = 17"));
    expect(ok.map(({ status }) => status)).toEqual(["fulfilled", "fulfilled"]);
    await own.commit();
    await own.beginTransaction();
    const ended = await crossed(() => own.query("COMMIT"));
    expect(ended).toMatchObject([
      { status: "fulfilled" },
      { status: "rejected", reason: { family: "unknown" } },
    ]);
    await own.query("SET autocommit = 1");
    expect(await pots(17)).toEqual(["mine"]);
    own.destroy();
  });

  it("held check: commits nothing after a deadlock", async () => {
    const backend = await mysql(rig.pool);
    const call = { signal: new AbortController().signal, timeoutMs: 20_000 };
    await backend.open?.(call);
    const answer = await backend.acquire({ name: "n", holder: "h", ttlMs: 60_000 }, call);
    if (!("grant" in answer)) throw new Error("not granted");
    const lease = { ...bearer(1), ...answer.grant, storeId: backend.storeId };
    const writing = rig.fence.held(lease, async (tx) => {
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
    const handle = await rig.fence.arm(bearer(5), "a");
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
      const handle = await rig.fence.arm(bearer(5), "a");
      const run = text.startsWith("CALL") ? query : native;
      const writing = handle.write(async (tx) => {
        await tx.query("UPDATE pot SET v = 'half' WHERE id = 14");
        await run(tx)(text).catch(() => undefined);
        await rig.fence.arm(bearer(6), "a");
        await native(tx)("UPDATE pot SET v = 'stale' WHERE id = 15");
      });
      await expect(writing).rejects.toThrow(/was ended inside the work.* may be committed/);
      await expect(writing).rejects.toBeInstanceOf(OutcomeUnknownError);
      expect(await pots(14, 15)).toEqual(["half", "-"]);
      await checkPool();
    },
  );

  it("tells it also where the work throws, which says that nothing is left of it", async () => {
    const handle = await rig.fence.arm(bearer(5), "a");
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
  it("goes on after a statement that failed alone, and was caught", async () => {
    const handle = await rig.fence.arm(bearer(5), "a");
    await handle.write(async (tx) => {
      const again = tx.query("INSERT INTO pot VALUES (14, 'twice')");
      await expect(again).rejects.toMatchObject({ errno: 1062 });
      await tx.query("UPDATE pot SET v = 'mine' WHERE id = 14");
    });
    expect(await pots(14)).toEqual(["mine"]);
  });

  it("keeps few statements prepared, however many texts the work sends", async () => {
    const handle = await rig.fence.arm(bearer(5), "a");
    const prepared = async (): Promise<number> => {
      const text = "SHOW GLOBAL STATUS LIKE 'Prepared_stmt_count'";
      return Number((await rig.server.query<{ Value: string }>(text))[0]?.Value);
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
