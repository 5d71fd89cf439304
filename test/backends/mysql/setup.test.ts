import { createPool } from "mysql2/promise";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { mysql, schemaSql } from "../../../src/backends/mysql/open.js";
import { claims } from "../../../src/claims/open.js";
import { exitFor } from "../../../src/cli/failure.js";
import { connect } from "../../../src/connect.js";
import { GuaranteeError, UnavailableError } from "../../../src/core/errors.js";
import type { TenureEvent } from "../../../src/core/events.js";
import { platform } from "../../../src/platform/index.js";
import { lockRow, rows } from "../../../src/rows/open.js";
import { describeOn } from "../../servers/find.js";
import { mariadbProgram, startMariadb, type MariadbServer } from "../../servers/mariadb.js";
import { startChild } from "./children.js";
import { call, freshSchema, openOn, poolOn, take, until } from "./rig.js";

describeOn(mariadbProgram, "setting up lease rows", () => {
  let server: MariadbServer;
  beforeAll(async () => void (server = await startMariadb()));
  afterAll(() => server.dispose());

  /** A server-wide setting, until the test ends. */
  const set = async (name: string, value: number, after: number): Promise<void> => {
    await server.query(`SET GLOBAL ${name} = ${value}`);
    onTestFinished(async () => void (await server.query(`SET GLOBAL ${name} = ${after}`)));
  };

  it("is done by twenty processes at once, who all see one store (case 39)", async () => {
    const schema = freshSchema();
    const children = Array.from({ length: 20 }, () => startChild(server.url, schema, "open"));
    const said = await Promise.all(children.map((child) => child.says()));
    expect(new Set(said.map(({ storeId }) => storeId)).size).toBe(1);
    expect(await Promise.all(children.map(({ ended }) => ended))).toEqual(said.map(() => 0));
  });

  it("is done by forty backends of one process at once, again and again", async () => {
    for (let round = 0; round < 3; round++) {
      const schema = freshSchema();
      const opened = await Promise.all(
        Array.from({ length: 20 }, () => openOn(server.url, { schema })),
      );
      expect(new Set(opened.map(({ storeId }) => storeId)).size).toBe(1);
      for (const backend of opened) await backend.close();
    }
  });

  it("uses the schema of the URL unless another is named, and its script can be run by hand", async () => {
    await server.query("CREATE SCHEMA `by hand`");
    await openOn(server.urlFor("root", "", "by%20hand"));
    const [found] = await server.query<{ n: number }>("SELECT COUNT(*) AS n FROM `by hand`.tenure_store");
    expect(Number(found!.n)).toBe(1);
    const script = schemaSql({ schema: "odd `name" });
    const run = script
      .replace(/^--.*\n/, "")
      .replace("DELIMITER $$\n", "")
      .replace("DELIMITER ;\n", "")
      .split(" $$\n")
      .filter((text) => text.trim() !== "");
    await server.script(run);
    await server.script(run);
    await take(await openOn(server.url, { schema: "odd `name", migrate: false }), "a");
  });

  it("takes a URL without a database for wrong usage, and says the form, before it connects", async () => {
    for (const url of ["mysql://u:secret@127.0.0.1:1", "mariadb://u:secret@127.0.0.1:1/"]) {
      for (const open of [connect, (own: string) => claims(own)]) {
        const error = await open(url).catch((reason: unknown) => reason);
        expect(error).toBeInstanceOf(TypeError);
        expect(exitFor(error)).toBe(64);
        expect(error).toMatchObject({ message: expect.stringMatching(/mysql:..HOST.DATABASE/) });
        expect(String(error)).not.toContain("secret");
      }
      // A schema that is given will do: nothing listens there.
      await expect(openOn(url, { schema: "a" })).rejects.toBeInstanceOf(UnavailableError);
    }
  });

  it("takes a URL without a database where no table of Tenure's is needed", async () => {
    await server.query("CREATE DATABASE named");
    await server.query("CREATE TABLE named.pot (id INT PRIMARY KEY, v INT)");
    await server.query("INSERT INTO named.pot VALUES (1, 7)");
    const open = await rows(server.urlFor("root", "", ""));
    onTestFinished(() => open.close());
    const locked = await open.transaction((tx) => lockRow(tx, "named.pot", { id: 1 }));
    expect(locked).toMatchObject({ row: { v: 7 } });
    const unnamed = open.transaction((tx) => lockRow(tx, "pot", { id: 1 }));
    await expect(unnamed).rejects.toThrow(/name a database .*or one with each table/);
    await server.query("DROP DATABASE named");
  });

  it("makes procedures anew that a dump has left out, and keeps the store", async () => {
    const schema = freshSchema();
    const first = await openOn(server.url, { schema });
    const grant = await take(first, "kept");
    await server.query(`DROP PROCEDURE ${schema}.tenure_renew_2`);
    await expect(first.renew([grant], call())).rejects.toThrow(/missing.*migrate --print/);
    await expect(openOn(server.url, { schema, migrate: false })).rejects.toThrow(/missing or old/);
    const second = await openOn(server.url, { schema });
    expect(second.storeId).toBe(first.storeId);
    expect(await second.renew([grant], call())).toEqual(["renewed"]);
  });

  it("has an error of its own for all that a person must mend, never taken for contention (case 39)", async () => {
    const schema = freshSchema();
    const refusal = { name: "UnavailableError", retryable: false };
    await expect(openOn(server.url, { schema, migrate: false })).rejects.toMatchObject({
      ...refusal,
      message: expect.stringMatching(/the schema does not exist/),
    });
    await server.query(`CREATE SCHEMA ${schema}`);
    await expect(openOn(server.url, { schema, migrate: false })).rejects.toMatchObject({
      ...refusal,
      message: expect.stringMatching(/missing or old.*tenure migrate --print/),
    });
    await server.addUser("poor", `SELECT ON ${schema}.*`);
    const poor = server.urlFor("poor", "secret", schema);
    await expect(openOn(poor)).rejects.toMatchObject({
      ...refusal,
      message: expect.stringMatching(/no permission to make them/),
    });
    await expect(openOn(server.urlFor("poor", "wrong", schema))).rejects.toMatchObject({
      ...refusal,
      message: expect.stringMatching(/refused user and password/),
    });
    const pool = createPool(server.urlFor("root", "", ""));
    onTestFinished(() => pool.end());
    await expect(openOn(pool)).rejects.toMatchObject({
      family: "caller",
      message: expect.stringMatching(/^schema must be given where a pool has no database/),
    });

    const backend = await openOn(server.url, { schema });
    await server.query(`UPDATE ${schema}.tenure_store SET version = 9`);
    await expect(openOn(server.url, { schema })).rejects.toMatchObject({
      ...refusal,
      message: expect.stringMatching(/version 9.*knows 1/),
    });
    await server.query(`DROP TABLE ${schema}.tenure_lease`);
    for (const failing of [
      () => backend.acquire({ name: "a", holder: "h", ttlMs: 1_000 }, call()),
      () => backend.inspect("a", call()),
      () => backend.release([{ name: "a", holder: "h" }], call()),
    ]) {
      await expect((async () => failing())()).rejects.toMatchObject({
        ...refusal,
        message: expect.stringMatching(/a table or procedure of Tenure is missing/),
      });
    }
  });

  it("is content with a user who may only use what is there, and says what it may not", async () => {
    const schema = freshSchema();
    await openOn(server.url, { schema });
    await server.addUser("user", `SELECT, INSERT, UPDATE, DELETE, EXECUTE ON ${schema}.*`);
    await server.addUser("reader", `SELECT, EXECUTE ON ${schema}.*`);
    await take(await openOn(server.urlFor("user", "secret", schema)), "a");
    const reader = await openOn(server.urlFor("reader", "secret", schema));
    await expect(take(reader, "b")).rejects.toThrow(/no permission/);
    expect(await reader.inspect("a", call())).not.toBeNull();
  });

  it("refuses a read-only server, also to who may write there all the same", async () => {
    const schema = freshSchema();
    const backend = await openOn(server.url, { schema });
    const grant = await take(backend, "a");
    await set("read_only", 1, 0);
    await expect(take(backend, "b")).rejects.toThrow(UnavailableError);
    await expect(take(backend, "b")).rejects.toThrow(/the server is read-only/);
    const renewing = (async () => backend.renew([grant], call()))();
    await expect(renewing).rejects.toThrow(/the server is read-only/);
    await expect(backend.release([grant], call())).rejects.toThrow(/the server is read-only/);
    await expect(openOn(server.url, { schema })).rejects.toMatchObject({
      name: "UnavailableError",
      retryable: true,
    });
    await server.query("SET GLOBAL read_only = 0");
    await take(backend, "b");
    await server.addUser("plain", `ALL ON ${schema}.*`);
    const plain = await openOn(server.urlFor("plain", "secret", schema));
    await server.query("SET GLOBAL read_only = 1");
    await expect(plain.renew([grant], call())).rejects.toThrow(/the server is read-only/);
    await expect(plain.release([grant], call())).rejects.toThrow(UnavailableError);
  });

  it("says less, and warns, where the server may lose what it has answered", async () => {
    const events: TenureEvent[] = [];
    const sink = { wants: () => true, publish: (event: TenureEvent) => void events.push(event) };
    const runtime = { ...platform(), events: sink };
    const schema = freshSchema();
    const safe = await openOn(server.url, { schema, runtime });
    expect(safe.manifest.tokens).toBe("durable");
    expect(events).toEqual([]);
    await set("innodb_flush_log_at_trx_commit", 2, 1);
    const unsafe = await openOn(server.url, { schema, runtime });
    expect(unsafe.manifest.tokens).toBe("until-failover");
    expect(events).toMatchObject([{ type: "warning", backend: "mysql" }]);
    const asked = mysql(server.url, { schema }).then((backend) =>
      connect(backend, { require: "durable" }),
    );
    await expect(asked).rejects.toThrow(GuaranteeError);
    const pool = poolOn(server);
    for (let tries = 0; tries < 3; tries++) {
      const refused = connect(await mysql(pool, { schema }), { require: "durable" });
      await expect(refused).rejects.toThrow(GuaranteeError);
    }
    const sessions = async (): Promise<number> => {
      const text = "SELECT COUNT(*) AS n FROM information_schema.processlist WHERE db = ?";
      return Number((await server.query<{ n: unknown }>(text, [schema]))[0]!.n);
    };
    // Those of the two backends that are open.
    await until("the others have none", async () => (await sessions()) === 2);
  });

  it("needs no session: what one connection acquired another releases (case 38)", async () => {
    const pool = poolOn(server, { connectionLimit: 2 });
    const backend = await openOn(pool, { schema: freshSchema() });
    const grant = await take(backend, "a");
    const first = await pool.getConnection();
    expect(await backend.acquire({ ...grant, name: "a" }, call())).toMatchObject({
      grant: { token: grant.token },
    });
    expect(await backend.release([grant], call())).toEqual(["released"]);
    const second = await pool.getConnection();
    expect(second.threadId).not.toBe(first.threadId);
    first.release();
    second.release();
  });

  it("leaves a caller's pool open, and its sessions as they were", async () => {
    const pool = poolOn(server, { connectionLimit: 1 });
    const settings = "SELECT @@innodb_lock_wait_timeout AS wait, @@tx_isolation AS level, DATABASE() AS s";
    const before = (await pool.query(settings))[0];
    const backend = await openOn(pool, { schema: freshSchema() });
    await backend.release([await take(backend, "a")], call());
    await backend.close();
    expect((await pool.query(settings))[0]).toEqual(before);
  });

  it("works on a pool with callbacks, and by both kinds of URL", async () => {
    const { createPool } = await import("mysql2");
    const pool = createPool(server.url);
    onTestFinished(() => new Promise<void>((resolve) => pool.end(() => resolve())));
    const backend = await mysql(pool, { schema: freshSchema() });
    onTestFinished(() => backend.close());
    await backend.open!(call());
    await take(backend, "a");
    const one = await connect(server.url);
    const other = await connect(server.url.replace("mysql:", "mariadb:"));
    const lease = await one.acquire("both");
    expect(await other.tryAcquire("both")).toBeNull();
    await lease.release();
    await Promise.all([one.close(), other.close()]);
  });

  it("leaves no session behind when it fails, and the caller's pool as it was", async () => {
    await server.addUser("nobody", "USAGE ON *.*");
    const { createPool } = await import("mysql2/promise");
    const pool = createPool({
      uri: server.urlFor("nobody", "secret", "information_schema"),
      connectionLimit: 1,
    });
    onTestFinished(() => pool.end());
    const sessions = async (): Promise<number> => {
      const count = "SELECT COUNT(*) AS n FROM information_schema.processlist WHERE user = 'nobody'";
      return Number((await server.query<{ n: unknown }>(count))[0]!.n);
    };
    const schema = freshSchema();
    for (const migrate of [true, false]) {
      for (let tries = 0; tries < 3; tries++) {
        const opening = connect(await mysql(pool, { schema, migrate }));
        await expect(opening).rejects.toBeInstanceOf(UnavailableError);
      }
    }
    await until("no session is left", async () => (await sessions()) === 0);
    expect((await pool.query("SELECT 1 AS one"))[0]).toEqual([{ one: 1 }]);
  });

  it("can be tried again with the same backend", async () => {
    const schema = freshSchema();
    const backend = await mysql(poolOn(server), { schema, migrate: false });
    await expect(connect(backend)).rejects.toBeInstanceOf(UnavailableError);
    await openOn(server.url, { schema });
    const tenure = await connect(backend);
    await (await tenure.acquire("a")).release();
    await tenure.close();
  });
});
