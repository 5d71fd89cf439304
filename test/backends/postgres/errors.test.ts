import { setTimeout as sleep } from "node:timers/promises";
import { inspect } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { postgres, schemaSql, type PostgresOptions } from "../../../src/backends/postgres/open.js";
import { GuaranteeError, OutcomeUnknownError, UnavailableError } from "../../../src/core/errors.js";
import { faultProxy } from "../../../src/testing/fault-proxy.js";
import { describeOn } from "../../servers/find.js";
import { postgresProgram, startPostgres, startStandby, type PostgresServer } from "../../servers/postgres.js";
import { boundedCall, call, freshSchema, openOn, poolOn, refused, request, take } from "./rig.js";

// Bad input and bad weather: each has its own error, and none is taken for contention (case 39).

/** What a call throws, or answers. */
const outcome = async (answer: unknown): Promise<unknown> => {
  try {
    return await answer;
  } catch (error) {
    return error;
  }
};

const libraries = ["pg", "postgres"] as const;

describeOn(postgresProgram, "errors of lease rows", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
    await server.query("CREATE ROLE app LOGIN PASSWORD 'secret'");
  });
  afterAll(() => server.dispose());

  /** What `open` rejects with. */
  async function opening(url: string, options: PostgresOptions = {}): Promise<any> {
    const backend = await postgres(url, options);
    try {
      await backend.open!(call());
    } catch (error) {
      return error;
    } finally {
      await backend.close();
    }
    throw new Error("it was opened");
  }

  describe.each(libraries)("through %s", (library) => {
    it("tables that are missing and not to be made", async () => {
      const schema = freshSchema();
      const error = await opening(server.url, { library, schema, migrate: false });
      expect(error).toBeInstanceOf(UnavailableError);
      expect(error.retryable).toBe(false);
      expect(error.message).toContain(`the tables in the schema ${schema} are missing`);
    });

    it("tables that vanish while open", async () => {
      const schema = freshSchema();
      const backend = await openOn(server.url, { library, schema });
      await server.query(`DROP SCHEMA ${schema} CASCADE`);
      const error = await take(backend, "x").catch((thrown: unknown) => thrown);
      expect(error).toBeInstanceOf(UnavailableError);
      expect(error).toMatchObject({ retryable: false, lock: "x" });
      expect(String(error)).toMatch(/cannot acquire a lease: .* of Tenure is missing/);
    });

    it("no permission to make tables, and none to use them", async () => {
      const schema = freshSchema();
      const url = server.urlFor("app");
      const noTables = await opening(url, { library, schema });
      expect(noTables).toBeInstanceOf(UnavailableError);
      expect(noTables.message).toContain("no permission to make them: have their owner run");
      await server.query(schemaSql({ schema }));
      const noUsage = await opening(url, { library, schema });
      expect(noUsage.message).toContain("the user has no permission (42501");
      await server.query(`GRANT USAGE ON SCHEMA ${schema} TO app`);
      await server.query(`GRANT SELECT ON ALL TABLES IN SCHEMA ${schema} TO app`);
      const backend = await openOn(url, { library, schema });
      const noInsert = await take(backend, "x").catch((thrown: unknown) => thrown);
      expect(noInsert).toMatchObject({ family: "unavailable", retryable: false });
      await server.query(
        `GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA ${schema} TO app`,
      );
      const grant = await take(backend, "x");
      expect(await backend.renew([grant], call())).toEqual(["renewed"]);
      expect(await backend.release([grant], call())).toEqual(["released"]);
    });

    it("tables of a newer version", async () => {
      const schema = freshSchema();
      await server.query(schemaSql({ schema }));
      await server.query(`UPDATE ${schema}.store SET version = 7`);
      const error = await opening(server.url, { library, schema });
      expect(error.message).toContain("have version 7, this release of Tenure knows 1");
      expect(error.retryable).toBe(false);
      // The printed script refuses as well, and changes nothing.
      await expect(server.query(schemaSql({ schema }))).rejects.toMatchObject({ code: "TN001" });
      const rows = await server.query(`SELECT version FROM ${schema}.store`);
      expect(rows).toEqual([{ version: 7 }]);
    });

    it("a server that is down", async () => {
      const down = await startPostgres();
      const { url } = down;
      await down.dispose();
      const error = await opening(url, { library });
      expect(error).toBeInstanceOf(UnavailableError);
      expect(error.message).toMatch(/cannot be reached.*ECONNREFUSED/);
    });

    it("a database or user that does not exist, without the password in any message", async () => {
      const nowhere = server.urlFor("app", "hush").replace(/postgres$/, "nowhere");
      for (const url of [nowhere, server.urlFor("nobody", "hush")]) {
        const error = await opening(url, { library });
        expect(error).toMatchObject({ family: "unavailable", retryable: false });
        expect(inspect(error, { depth: 9 })).toMatch(/does not exist/);
        expect(inspect(error, { depth: 9 })).not.toContain("hush");
      }
    });

    it("a connection cut with the statement under way, which leaves the outcome open", async () => {
      const proxy = await faultProxy({ port: server.port });
      const schema = freshSchema();
      const url = server.url.replace(`:${server.port}`, `:${proxy.port}`);
      const backend = await openOn(url, { library, schema });
      await take(backend, "warm");
      // The request arrives, the reply does not.
      proxy.hold("reply");
      const sent = proxy.passed("request");
      const asked = request("cut");
      const answer = outcome(backend.acquire(asked, call()));
      await sent;
      const watcher = await openOn(server.url, { schema });
      while ((await watcher.inspect("cut", call())) === null) await sleep(5);
      proxy.cut();
      expect(await answer).toBeInstanceOf(OutcomeUnknownError);
      await proxy.heal();
      // Found or not, as long as it may still be under way, nobody can say that nothing is left.
      const cleanUp = (): unknown => backend.release([{ name: "cut", holder: asked.holder }], call());
      expect(await cleanUp()).toEqual(["released"]);
      expect(await cleanUp()).toEqual(["unknown"]);
      await take(backend, "cut");
      await proxy.close();
    });

    it("a server that says nothing: the call ends, and the next one finds a connection", async () => {
      const proxy = await faultProxy({ port: server.port });
      const url = server.url.replace(`:${server.port}`, `:${proxy.port}`);
      const backend = await openOn(url, { library, schema: freshSchema() });
      const grant = await take(backend, "silent");
      proxy.silence();
      const error = await outcome(backend.renew([grant], boundedCall(200)));
      expect(error).toMatchObject({ family: "unknown" });
      await proxy.heal();
      expect(await backend.renew([grant], call())).toEqual(["renewed"]);
      await proxy.close();
    });
  });

  it("a read-only standby, and transactions that are set to be read-only (scenario 28)", async () => {
    const standby = await startStandby(server.port);
    try {
      const error = await opening(standby.url);
      expect(error).toBeInstanceOf(UnavailableError);
      expect(error.message).toContain("read-only standby");
    } finally {
      await standby.dispose();
    }
    const backend = await openOn(server.url, { schema: freshSchema() });
    const grant = await take(backend, "x");
    await server.query("ALTER DATABASE postgres SET default_transaction_read_only = on");
    try {
      await server.terminate("true");
      const refusal = await take(backend, "y").catch((thrown: unknown) => thrown);
      expect(refusal).toMatchObject({ family: "unavailable", retryable: true });
      await expect(backend.renew([grant], call())).rejects.toMatchObject({ family: "unavailable" });
      expect(await backend.inspect("x", call())).not.toBeNull();
    } finally {
      await server.query("BEGIN READ WRITE; ALTER DATABASE postgres RESET ALL; COMMIT");
    }
    await server.terminate("true");
    expect(await backend.renew([grant], call())).toEqual(["renewed"]);
  });

  it("a pool without a free connection, told before the call is over", async () => {
    const pool = poolOn(server, { max: 2 });
    const backend = await openOn(pool, { schema: freshSchema() });
    const taken = [await pool.connect(), await pool.connect()];
    const error = await outcome(backend.acquire(request("full"), call(500)));
    expect(error).toBeInstanceOf(UnavailableError);
    expect(String(error)).toContain("the pool had no free connection in time: all are in use; begin fewer calls at once");
    for (const client of taken) client.release();
    // What was asked for in vain did not arrive later.
    expect(await backend.inspect("full", call())).toBeNull();
    await take(backend, "full");
  });

  it("a server with too many connections", async () => {
    const small = await startPostgres({ max_connections: 5, superuser_reserved_connections: 0 });
    const pool = poolOn(small, { max: 5 });
    const backend = await openOn(small.url, { schema: freshSchema() });
    const taken = await Promise.all(Array.from({ length: 4 }, () => pool.connect()));
    const error = await take(backend, "x").catch((thrown: unknown) => thrown);
    expect(error).toMatchObject({ family: "unavailable", retryable: true });
    expect(String(error)).toContain("too many connections (53300");
    for (const client of taken) client.release(true);
    await pool.query("SELECT 1").catch(() => undefined);
    await backend.close();
    await small.dispose();
  });

  it("a database in which names cannot be kept apart", async () => {
    await server.query("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0");
    const error = await opening(server.url.replace(/postgres$/, "latin"));
    expect(error).toBeInstanceOf(GuaranteeError);
    expect(error.message).toContain("LATIN1");
  });

  it("wrong options and clients, before any I/O", async () => {
    const wrong: [PostgresOptions, RegExp][] = [
      [{ schema: "" }, /schema must be 1 to 63 bytes, got ""/],
      [{ schema: "x".repeat(64) }, /schema must be 1 to 63 bytes/],
      [{ schema: "a$b" }, /schema must be a name without control characters and \$/],
      [{ schema: "pg_own" }, /schema must be none of Postgres' own/],
      [{ schema: 7 as never }, /schema must be a name.*, got 7/],
      [{ migrate: "no" as never }, /migrate must be true or false, got "no"/],
      [{ storeId: "" }, /storeId must be/],
    ];
    for (const [options, message] of wrong) {
      await expect(postgres("postgres://127.0.0.1:1/x", options)).rejects.toThrow(message);
    }
    await expect(postgres("mysql://u:hush@h/d")).rejects.toThrow(/^url must be(?!.*hush)/);
    await expect(postgres("postgres://u:hush@ho st/d")).rejects.toThrow(/^url must be(?!.*hush)/);
    await expect(postgres({} as never)).rejects.toThrow(/^pool must be a pool of pg/);
  });

  it("a session of another isolation level meets others, and that is contention", async () => {
    const schema = freshSchema();
    const options = "-c default_transaction_isolation=serializable";
    const backend = await openOn(poolOn(server, { options, max: 10 }), { schema });
    const answers = await Promise.all(
      Array.from({ length: 10 }, async () => backend.acquire(request("one"), call())),
    );
    expect(answers.filter((answer) => "grant" in answer)).toHaveLength(1);
    await refused(backend, "one");
  });
});
