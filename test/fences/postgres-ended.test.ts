/** Transactions that are ended inside the work: what can be undone is, and the rest is told. */
import pg from "pg";
import postgres from "postgres";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { OutcomeUnknownError, UnavailableError } from "../../src/core/errors.js";
import { postgresFence, type PostgresFence, type SqlTx } from "../../src/fences/postgres/open.js";
import { rows } from "../../src/rows/open.js";
import { describeOn } from "../servers/find.js";
import { postgresProgram, startPostgres, type PostgresServer } from "../servers/postgres.js";
import { bearer } from "./bearers.js";

type Run = (text: string) => Promise<unknown>;

describeOn(postgresProgram, "a transaction of the Postgres fence, ended inside the work", () => {
  let server: PostgresServer;
  beforeAll(async () => void (server = await startPostgres()));
  afterAll(() => server.dispose());

  describe.each(["pool", "postgres", "client"] as const)("through %s", (library) => {
    let fence: PostgresFence;
    let session: Run;
    let target: pg.Pool | pg.Client | postgres.Sql;
    const fenceOf = (options: object): PostgresFence => postgresFence(target, options);
    let close: () => Promise<unknown>;

    beforeEach(async () => {
      await server.query("DROP SCHEMA IF EXISTS tenure CASCADE; DROP TABLE IF EXISTS pot");
      await server.query("CREATE TABLE pot (id int PRIMARY KEY, v text)");
      await server.query("INSERT INTO pot VALUES (1, '-'), (2, '-')");
      const settings = { connectionString: server.url, max: 1 };
      if (library === "pool") {
        const pool = new pg.Pool(settings);
        target = pool;
        [fence, close, session] = [postgresFence(pool), () => pool.end(), (t) => pool.query(t)];
      } else if (library === "client") {
        const client = new pg.Client(settings);
        // It is the caller's: the server ends its session.
        client.on("error", () => undefined);
        target = client;
        await client.connect();
        [fence, close] = [postgresFence(client), () => client.end()];
        session = (text) => client.query(text);
      } else {
        const sql = postgres(server.url, { max: 1, onnotice: () => undefined });
        target = sql;
        [fence, close] = [postgresFence(sql), () => sql.end({ timeout: 1 })];
        session = (text) => sql.unsafe(text);
      }
    });
    afterEach(() => close());

    const pots = async (): Promise<unknown[]> =>
      (await server.query<{ v: string }>("SELECT v FROM pot ORDER BY id")).map(({ v }) => v);
    const native = ({ native: own }: SqlTx): Run => (text) => {
      const { unsafe, query } = own as { unsafe?: Run; query: Run };
      return (unsafe ?? query).call(own, text);
    };
    /** The session writes as before. */
    async function checkSession(): Promise<void> {
      await session("UPDATE pot SET v = 'free' WHERE id = 2");
      expect(await pots()).toContain("free");
    }

    it.each([
      "/* x */ COMMIT", "/* x /* y */ */ COMMIT", "-- x\nCOMMIT", ";COMMIT", "SELECT 1; COMMIT",
      "SELECT 1; COMMIT; BEGIN", "ROLLBACK -- TO", "ROLLBACK; SELECT 'TO'",
    ])("refuses %j before anything is sent", async (text) => {
      const handle = await fence.arm(bearer(5), "a");
      const writing = handle.write((tx) => tx.query(text));
      await expect(writing).rejects.toThrow(/the fence begins and ends the transaction/);
      await checkSession();
    });

    it("commits nothing of another transaction that was begun inside, and tells it", async () => {
      const handle = await fence.arm(bearer(5), "a");
      const writing = handle.write(async (tx) => {
        const run = native(tx);
        await tx.query("UPDATE pot SET v = 'half' WHERE id = 1");
        await run("COMMIT; BEGIN; UPDATE pot SET v = 'stale' WHERE id = 2");
      });
      await expect(writing).rejects.toThrow(/was ended inside the work: a part .* be committed/);
      await expect(writing).rejects.toBeInstanceOf(OutcomeUnknownError);
      expect(await pots()).toEqual(["half", "-"]);
      await checkSession();
    });

    it("tells it also where the work throws, which says that nothing is left of it", async () => {
      const handle = await fence.arm(bearer(5), "a");
      const writing = handle.write(async (tx) => {
        await tx.query("UPDATE pot SET v = 'half' WHERE id = 1");
        await native(tx)("COMMIT");
        throw new Error("boom");
      });
      const error = await writing.catch((reason: unknown) => reason);
      expect(error).toBeInstanceOf(OutcomeUnknownError);
      expect(error).toMatchObject({ cause: { message: "boom" } });
      await checkSession();
      expect(await handle.read((tx) => tx.query("SELECT v FROM pot WHERE id = 1"))).toEqual([
        { v: "half" },
      ]);
      expect(handle.arm).toBe(2);
    });

    /** A pool of the same library: what is out of time may keep the one connection of the first. */
    const another = (): pg.Pool | postgres.Sql => {
      if (library === "pool") return target as pg.Pool;
      const sql = postgres(server.url, { max: 1, onnotice: () => undefined });
      onTestFinished(() => sql.end({ timeout: 1 }));
      return sql;
    };
    /** Commits a row on the library's own connection, then goes wrong in some other way. */
    const wrongs: readonly [string, (tx: SqlTx) => Promise<unknown>][] = [
      ["time that is over", () => new Promise(() => undefined)],
      ["time that is over in a statement", (tx) => native(tx)("SELECT pg_sleep(60)")],
      [
        "the end of the session, which the work does not meet",
        async (tx) => {
          const ids = await native(tx)("SELECT pg_backend_pid() AS id");
          const [{ id }] = ((ids as { rows?: unknown }).rows ?? ids) as [{ id: number }];
          await server.query(`SELECT pg_terminate_backend(${id}, 5000)`);
        },
      ],
      [
        "the end of the session",
        async (tx) => {
          const ids = await native(tx)("SELECT pg_backend_pid() AS id");
          const [{ id }] = ((ids as { rows?: unknown }).rows ?? ids) as [{ id: number }];
          await server.query(`SELECT pg_terminate_backend(${id}, 5000)`);
          await tx.query("SELECT 1");
        },
      ],
      [
        "an error of Tenure",
        async () => {
          throw new UnavailableError("boom", { backend: "x" });
        },
      ],
    ];
    it.each(wrongs)("tells as unknown what was committed by hand before %s", async (_, wrong) => {
      const inTime = fenceOf({ transactionMs: 1_500 });
      const handle = await inTime.arm(bearer(5), "a");
      const work = async (tx: SqlTx): Promise<void> => {
        await native(tx)("UPDATE pot SET v = 'half' WHERE id = 1");
        await native(tx)("COMMIT");
        await wrong(tx);
      };
      await expect(handle.write(work)).rejects.toBeInstanceOf(OutcomeUnknownError);
      expect(await pots()).toEqual(["half", "-"]);
      if (library === "client") return;
      await server.query("UPDATE pot SET v = '-'");
      const db = await rows(another(), { timeout: 1_500 });
      await expect(db.transaction(work)).rejects.toBeInstanceOf(OutcomeUnknownError);
      expect(await pots()).toEqual(["half", "-"]);
    });

    it("knows that nothing happened where only the fence's own statements were sent", async () => {
      const handle = await fenceOf({ transactionMs: 1_500 }).arm(bearer(5), "a");
      const late = async (tx: SqlTx): Promise<void> => {
        await tx.query("UPDATE pot SET v = 'mine' WHERE id = 1");
        await new Promise(() => undefined);
      };
      await expect(handle.write(late)).rejects.toBeInstanceOf(UnavailableError);
      if (library === "client") return;
      const db = await rows(another(), { timeout: 1_500 });
      await expect(db.transaction(late)).rejects.toBeInstanceOf(UnavailableError);
      expect(await pots()).toEqual(["-", "-"]);
    });

    it("lets a read write nothing, and takes no setting from the session", async () => {
      const handle = await fence.arm(bearer(5), "a");
      const seen = await handle.read((tx) => tx.query("SELECT v FROM pot WHERE id = 1"));
      expect(seen).toEqual([{ v: "-" }]);
      const writing = handle.read((tx) => tx.query("UPDATE pot SET v = 'read' WHERE id = 1"));
      await expect(writing).rejects.toMatchObject({ code: "25006" });
      expect(await pots()).toEqual(["-", "-"]);
      await checkSession();
    });

    it("tells of a read whose work ended it that what came after may be committed", async () => {
      const handle = await fence.arm(bearer(5), "a");
      const told = {
        family: "unknown",
        message: expect.stringMatching(/was ended inside the work: what .* after that .* may be/),
      };
      const reading = handle.read(async (tx) => {
        const run = native(tx);
        await run("COMMIT");
        await run("UPDATE pot SET v = 'after' WHERE id = 1");
      });
      await expect(reading).rejects.toMatchObject(told);
      expect(await pots()).toEqual(["after", "-"]);
      const another = handle.read(async (tx) => {
        await native(tx)("COMMIT; BEGIN; UPDATE pot SET v = 'another' WHERE id = 1");
      });
      await expect(another).rejects.toMatchObject(told);
      const failing = handle.read(async (tx) => {
        await native(tx)("COMMIT");
        throw new Error("boom");
      });
      await expect(failing).rejects.toMatchObject({ ...told, cause: { message: "boom" } });
      expect(await pots()).toEqual(["after", "-"]);
      await checkSession();
      // Nothing of the read is open: the handle goes on with its arming.
      await handle.write((tx) => tx.query("UPDATE pot SET v = 'mine' WHERE id = 1"));
      expect(handle.arm).toBe(1);
    });

    it.each(["SELECT 1", "COMMIT", "COMMIT; BEGIN"])(
      "leaves the caller's own settings as they were after a read of %j",
      async (text) => {
        const handle = await fence.arm(bearer(5), "a");
        await session("SET default_transaction_read_only = on");
        const reading = handle.read((tx) => native(tx)(text));
        if (text.startsWith("SELECT")) await reading;
        else await expect(reading).rejects.toBeInstanceOf(OutcomeUnknownError);
        // A pool of `pg` has ended the connection by now.
        const isNew = library === "pool" && text !== "SELECT 1";
        const update = session("UPDATE pot SET v = 'free' WHERE id = 2");
        if (isNew) await update;
        else await expect(update).rejects.toMatchObject({ code: "25006" });
      },
    );

    it("commits nothing over a failure that was caught without a savepoint", async () => {
      const handle = await fence.arm(bearer(5), "a");
      const writing = handle.write(async (tx) => {
        await tx.query("UPDATE pot SET v = 'mine' WHERE id = 1");
        await tx.query("INSERT INTO pot VALUES (1, 'twice')").catch(() => undefined);
      });
      await expect(writing).rejects.toThrow(/all of it was rolled back/);
      expect(await pots()).toEqual(["-", "-"]);
      await checkSession();
    });

    it("goes on after ROLLBACK TO a savepoint", async () => {
      const handle = await fence.arm(bearer(5), "a");
      const writing = handle.write(async (tx) => {
        if (library === "postgres") {
          // The library lets nothing go on after a failure, but by its own savepoints.
          const own = tx.native as { savepoint(work: (sql: unknown) => unknown): Promise<unknown> };
          const twice = own.savepoint((sql) => (sql as { unsafe: Run }).unsafe(TWICE));
          await expect(twice).rejects.toMatchObject({ code: "23505" });
        } else {
          await tx.query("SAVEPOINT s");
          await expect(tx.query(TWICE)).rejects.toMatchObject({ code: "23505" });
          await tx.query("ROLLBACK TO s");
        }
        await tx.query("UPDATE pot SET v = 'mine' WHERE id = 1");
      });
      await writing;
      expect(await pots()).toEqual(["mine", "-"]);
    });
    const TWICE = "INSERT INTO pot VALUES (1, 'twice')";
  });
});
