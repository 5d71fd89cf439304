import { Pool } from "pg";
import postgresJs from "postgres";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { OutcomeUnknownError, UnavailableError } from "../../../src/core/errors.js";
import { transact, type PostgresDatabase } from "../../../src/drivers/postgres/database.js";
import { explainPostgres, isContention, sqlState } from "../../../src/drivers/postgres/errors.js";
import { adoptPostgres, openPostgres } from "../../../src/drivers/postgres/open.js";
import { faultProxy } from "../../../src/testing/fault-proxy.js";
import { describeOn } from "../../servers/find.js";
import { postgresProgram, startPostgres, type PostgresServer } from "../../servers/postgres.js";
import { until } from "./rig.js";

const libraries = ["pg", "postgres"] as const;

describeOn(postgresProgram, "the Postgres driver", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
    await server.query("CREATE TABLE t (n bigint PRIMARY KEY)");
  });
  afterAll(() => server.dispose());

  async function databaseOn(
    url: string,
    library: (typeof libraries)[number],
    max = 10,
  ): Promise<PostgresDatabase> {
    const database = await openPostgres(url, { library, maxConnections: max });
    onTestFinished(() => database.close());
    return database;
  }

  const rows = async (): Promise<string[]> =>
    (await server.query<{ n: string }>("SELECT n FROM t ORDER BY n")).map(({ n }) => n);

  describe.each(libraries)("through %s", (library) => {
    it("keeps 64-bit integers exact, as text both ways", async () => {
      const database = await databaseOn(server.url, library);
      const text = "SELECT ($1::bigint + 1)::text AS n";
      const { rows: found } = await database.run(text, ["9007199254740993"], {});
      expect(found[0]).toEqual({ n: "9007199254740994" });
    });

    it("commits a transaction, and rolls back one whose work throws", async () => {
      await server.query("TRUNCATE t");
      const database = await databaseOn(server.url, library);
      const options = { timeoutMs: 5_000, during: "test" };
      const answer = await transact(
        database,
        async (tx) => {
          await tx.query("INSERT INTO t VALUES ($1::bigint)", ["1"]);
          return "done";
        },
        options,
      );
      expect(answer).toBe("done");
      const failure = new Error("the work's own");
      const failing = transact(
        database,
        async (tx) => {
          await tx.query("INSERT INTO t VALUES (2)");
          throw failure;
        },
        options,
      );
      await expect(failing).rejects.toBe(failure);
      expect(await rows()).toEqual(["1"]);
    });

    it("does not take a COMMIT for one that rolled back", async () => {
      await server.query("TRUNCATE t");
      const database = await databaseOn(server.url, library);
      const swallowing = transact(
        database,
        async (tx) => {
          await tx.query("INSERT INTO t VALUES (1)");
          await tx.query("SELECT 1 / 0").catch(() => undefined);
        },
        { timeoutMs: 5_000, during: "write" },
      );
      await expect(swallowing).rejects.toMatchObject({ family: "unavailable" });
      expect(await rows()).toEqual([]);
    });

    it("lets the server end a transaction whose process does nothing any more", async () => {
      await server.query("TRUNCATE t");
      const database = await databaseOn(server.url, library);
      const frozen = transact(
        database,
        async (tx) => {
          await tx.query("INSERT INTO t VALUES (1)");
          // Nothing more is sent until somebody else has got the row.
          await server.query("INSERT INTO t VALUES (1)");
        },
        { timeoutMs: 3_000, during: "write" },
      );
      await expect(frozen).rejects.toThrow();
      expect(await rows()).toEqual(["1"]);
      // The database goes on with other connections.
      expect((await database.run("SELECT 3 AS n", [], {})).rows).toEqual([{ n: 3 }]);
    });

    it("tells a COMMIT without an answer as unknown", async () => {
      await server.query("TRUNCATE t");
      const proxy = await faultProxy({ port: server.port });
      onTestFinished(() => proxy.close());
      const url = server.url.replace(`:${server.port}`, `:${proxy.port}`);
      const database = await databaseOn(url, library);
      const cutOnceCommitted = async (): Promise<void> => {
        await until("it is committed", async () => (await rows()).length === 1);
        proxy.cut();
      };
      const committing = transact(
        database,
        async (tx) => {
          await tx.query("INSERT INTO t VALUES (1)");
          proxy.hold("reply");
          void cutOnceCommitted();
        },
        { timeoutMs: 5_000, during: "write" },
      );
      await expect(committing).rejects.toThrow(OutcomeUnknownError);
    });

    it("tells a COMMIT that was answered with the end of the session as unknown", async () => {
      await server.query("TRUNCATE t");
      const database = await databaseOn(server.url, library);
      const insert = (): Promise<unknown> =>
        transact(database, (tx) => tx.query("INSERT INTO t VALUES (1)"), {
          timeoutMs: 5_000,
          during: "write",
        });
      // The commit is done here, and waits for a standby that does not exist.
      await server.query("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
      onTestFinished(async () => {
        await server.query("ALTER SYSTEM RESET synchronous_standby_names");
        await server.query("SELECT pg_reload_conf()");
      });
      await server.query("SELECT pg_reload_conf()");
      await until("the setting counts", async () => {
        const [row] = await server.query("SHOW synchronous_standby_names");
        return row?.["synchronous_standby_names"] === "nobody";
      });
      const told = expect(insert()).rejects.toThrow(OutcomeUnknownError);
      const isWaiting = "wait_event = 'SyncRep'";
      await until("it waits", async () => {
        const text = `SELECT 1 FROM pg_stat_activity WHERE ${isWaiting}`;
        return (await server.query(text)).length > 0;
      });
      expect(await server.terminate(isWaiting)).toBe(1);
      await told;
      expect(await rows()).toEqual(["1"]);

      // The same answer, and nothing was committed.
      await server.query("ALTER SYSTEM RESET synchronous_standby_names");
      await server.query("SELECT pg_reload_conf()");
      await server.query("TRUNCATE t");
      await server.query(`CREATE OR REPLACE FUNCTION quit() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$`);
      await server.query(`CREATE CONSTRAINT TRIGGER quits AFTER INSERT ON t
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION quit()`);
      onTestFinished(async () => void (await server.query("DROP TRIGGER quits ON t")));
      await expect(insert()).rejects.toThrow(OutcomeUnknownError);
      expect(await rows()).toEqual([]);
    });

    it("prepares what comes again, and goes on where the session has forgotten it", async () => {
      const database = await databaseOn(server.url, library, 1);
      const run = async (text: string): Promise<unknown> =>
        (await database.run(text, ["7"], { isPrepared: true })).rows;
      const text = "SELECT $1::integer AS n";
      const prepared = `SELECT count(*)::integer AS n FROM pg_prepared_statements
        WHERE statement = '${text}'`;
      expect([await run(text), await run(text)]).toEqual([[{ n: 7 }], [{ n: 7 }]]);
      expect((await database.run(prepared, [], {})).rows).toEqual([{ n: 1 }]);
      await database.run("DEALLOCATE ALL", [], {});
      expect(await run(text)).toEqual([{ n: 7 }]);

      // What it reads has another type than when it was prepared.
      await server.query("CREATE TABLE changing AS SELECT 7::integer AS n");
      onTestFinished(async () => void (await server.query("DROP TABLE changing")));
      const reading = "SELECT n FROM changing WHERE n = $1::integer";
      expect(await run(reading)).toEqual([{ n: 7 }]);
      await server.query("ALTER TABLE changing ALTER n TYPE text USING 'seven'");
      await expect(run("SELECT n FROM changing WHERE $1 = '7'")).resolves.toEqual([{ n: "seven" }]);
      await server.query("ALTER TABLE changing ALTER n TYPE smallint USING 7");
      expect(await run(reading)).toEqual([{ n: 7 }]);
    });

    it("gives up waiting for a connection, and nothing arrives later", async () => {
      await server.query("TRUNCATE t");
      const database = await databaseOn(server.url, library, 1);
      const impatient = new AbortController();
      const limits = { patience: impatient.signal };
      const blocking = database.begin(async (tx) => {
        const waiting = [
          database.run("INSERT INTO t VALUES (7)", [], limits),
          database.begin((other) => other.query("INSERT INTO t VALUES (8)"), limits),
        ];
        impatient.abort();
        for (const one of await Promise.allSettled(waiting)) {
          expect(one).toMatchObject({ reason: expect.any(UnavailableError) });
          expect(String((one as PromiseRejectedResult).reason)).toContain("no free connection");
        }
        await tx.query("INSERT INTO t VALUES (9)");
      }, {});
      await blocking;
      await database.run("SELECT 1", [], {});
      expect(await rows()).toEqual(["9"]);
    });

    it("uses a caller's pool, connects beside it, and leaves it open", async () => {
      const pool =
        library === "pg"
          ? new Pool({ connectionString: server.url, max: 1 })
          : postgresJs(server.url, { max: 1, fetch_types: false });
      onTestFinished(() => pool.end());
      const database = adoptPostgres(pool);
      const own = await database.connect();
      const busy = database.begin(async (tx) => {
        await tx.query("SELECT 1");
        expect((await own.query("SELECT 1 AS one")).rows).toEqual([{ one: 1 }]);
      }, {});
      await busy;
      await own.close();
      await expect(own.query("SELECT 1")).rejects.toThrow(/has ended/);
      await database.close();
      expect((await database.run("SELECT 2 AS n", [], {})).rows).toEqual([{ n: 2 }]);
    });
  });
});

describe("errors of Postgres", () => {
  const reply = (code: string): Error =>
    Object.assign(new Error("text"), { code, severity: "ERROR" });

  it("are contention only where others were faster", () => {
    expect(["40001", "40P01", "55P03"].map(reply).every(isContention)).toBe(true);
    expect(["23505", "42P01", "42501", "53100", "25006"].map(reply).some(isContention)).toBe(false);
    expect(isContention(Object.assign(new Error("x"), { code: "55P03" }))).toBe(false);
  });

  it("of the server say that nothing happened; of a broken connection nothing at all", () => {
    const family = (error: unknown, unsent = false): string =>
      explainPostgres(error, { during: "x", unsent }).family;
    for (const code of ["42P01", "42501", "53100", "25006", "57P01", "22012"]) {
      expect(family(reply(code)), code).toBe("unavailable");
    }
    // A pooler answers so when its own server went away.
    for (const code of ["08P01", "08006", "08007", "40003"]) {
      expect(family(reply(code)), code).toBe("unknown");
      expect(family(reply(code), true), code).toBe("unavailable");
    }
    const lost = Object.assign(new Error("read ECONNRESET"), { code: "ECONNRESET", syscall: "read" });
    expect(family(lost)).toBe("unknown");
    expect(family(Object.assign(new Error("no"), { syscall: "connect" }))).toBe("unavailable");
    expect(sqlState(Object.assign(new Error("x"), { code: "EPIPE" }))).toBeUndefined();
  });

  it("a password that was not given is no server out of reach", () => {
    const asked = new Error("SASL: SCRAM-SERVER-FIRST-MESSAGE: client password must be a string");
    const told = explainPostgres(asked, { during: "connect", unsent: true });
    expect(told).toMatchObject({ family: "unavailable", retryable: false });
    expect(told.message).toContain("cannot connect: the server wants a password, and none was");
  });
});
