/** Statements that sessions keep prepared, and sessions that do not have them. */
import { Client } from "pg";
import postgres from "postgres";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { resultOf, type PostgresResult } from "../../src/drivers/postgres/connection.js";
import { runKept, type KeptSession, type KeptStatement } from "../../src/drivers/postgres/kept.js";
import { KeptSql } from "../../src/sql/kept-sql.js";
import { sql } from "../../src/sql/statement.js";
import { describeOn } from "../servers/find.js";
import { pgbouncerProgram, startPgBouncer } from "../servers/pgbouncer.js";
import { postgresProgram, startPostgres, type PostgresServer } from "../servers/postgres.js";

describeOn(postgresProgram, "a statement that sessions keep", () => {
  let server: PostgresServer;
  beforeAll(async () => {
    server = await startPostgres();
  });
  afterAll(async () => {
    await server?.dispose();
  });

  const ECHO_SQL = new KeptSql<"t" | "n" | "s">(
    ({ text, whole }) => sql`SELECT ${text("t")} AS t, ${whole("n")} AS n, ${whole("s")} AS s`,
  );
  const ECHO: KeptStatement = ECHO_SQL.with({ t: "it's $1 \\ é", n: -(2n ** 63n), s: 7 }).in(
    undefined,
  );
  const ECHOED = [{ t: "it's $1 \\ é", n: "-9223372036854775808", s: "7" }];
  const BEFORE = "SET LOCAL lock_timeout = 77";

  /** One session, and what was sent on it. */
  async function session(
    url: string,
    library: "pg" | "postgres",
  ): Promise<{ run: (text: string) => Promise<PostgresResult>; sent: string[] }> {
    const sent: string[] = [];
    let ask: (text: string) => PromiseLike<unknown>;
    if (library === "pg") {
      const client = new Client({ connectionString: url });
      await client.connect();
      onTestFinished(() => client.end());
      ask = (text) => client.query(text);
    } else {
      const client = postgres(url, { max: 1, onnotice: () => undefined });
      onTestFinished(() => client.end({ timeout: 1 }));
      ask = (text) => client.unsafe(text, []);
    }
    const run = async (text: string): Promise<PostgresResult> => {
      sent.push(text);
      return resultOf(await ask(text));
    };
    return { run, sent };
  }
  const keptOn = async (
    session: KeptSession,
    ...statements: readonly KeptStatement[]
  ): Promise<unknown> => {
    const { rows } = await runKept(session, BEFORE, statements.length > 0 ? statements : [ECHO]);
    return [...rows].map((row) => ({ ...row }));
  };
  const kept = (run: KeptSession["run"], statement = ECHO) => keptOn({ run }, statement);

  describe.each(["pg", "postgres"] as const)("with %s", (library) => {
    it("is prepared once, and again where the session has forgotten it", async () => {
      const { run, sent } = await session(server.url, library);
      for (const messages of [2, 1, 1]) {
        expect(await kept(run)).toEqual(ECHOED);
        expect(sent.splice(0)).toHaveLength(messages);
      }
      await run("DISCARD ALL");
      for (const messages of [3, 1]) {
        expect(await kept(run)).toEqual(ECHOED);
        expect(sent.splice(0)).toHaveLength(messages);
      }
      expect((await run("SHOW lock_timeout")).rows[0]).toMatchObject({ lock_timeout: "0" });
    });

    it("is prepared with its first message where the connection is known", async () => {
      const { run, sent } = await session(server.url, library);
      const known = { run, taught: new Set<string>() };
      const refusals = (): number => server.log.match(/ERROR: .*prepared statement/g)?.length ?? 0;
      const before = refusals();
      for (let time = 0; time < 3; time++) {
        expect(await keptOn(known)).toEqual(ECHOED);
        const message = time === 0 ? /7; PREPARE/ : /7; EXECUTE/;
        expect(sent.splice(0)).toEqual([expect.stringMatching(message)]);
      }
      expect(refusals()).toBe(before);
      // It has been taught by another, or has forgotten, behind the same connection.
      expect(await keptOn({ run, taught: new Set() })).toEqual(ECHOED);
      await run("DISCARD ALL");
      expect(await keptOn(known)).toEqual(ECHOED);
      expect(sent.splice(0)).toHaveLength(2 + 1 + 2);
      expect(refusals()).toBe(before + 2);
      expect(await keptOn(known)).toEqual(ECHOED);
      expect(sent).toHaveLength(1);
    });

    it("has its values as they are, whatever the session's settings", async () => {
      const { run } = await session(server.url, library);
      const ascii = Array.from({ length: 127 }, (_, code) => String.fromCharCode(code + 1)).join("");
      const odd = ["", "'", "''; SELECT '", "\\'", "\\\\", "é漢𝒳", " -- ", "/*", "\\u0041"];
      const texts = [...odd, '{"a":"it\'s $1\\n"}', ascii, `${ascii}é`];
      for (const conforming of ["on", "off"]) {
        await run(`SET standard_conforming_strings = ${conforming}`);
        for (const t of texts) {
          const echo = ECHO_SQL.with({ t, n: null, s: "x".length }).in(undefined);
          expect(await kept(run, echo)).toEqual([{ t, n: null, s: "1" }]);
        }
      }
    });

    it("stands with others in one transaction, each of which sees what is committed by then", async () => {
      const { run, sent } = await session(server.url, library);
      const other = await session(server.url, library);
      const table = `several_${library}`;
      await run(`CREATE TABLE ${table} (n integer PRIMARY KEY)`);
      sent.length = 0;
      const insert = { text: `INSERT INTO ${table} VALUES ($1::integer)`, args: ["1"] };
      const note = { text: "SELECT set_config('tenure.note', $1::text, true)", args: ["'7'"] };
      const count = {
        text: `SELECT current_setting('tenure.note') AS note, count(*)::integer AS n FROM ${table}`,
        args: [],
      };
      for (const taught of [undefined, new Set<string>()]) {
        expect(await keptOn({ run, taught }, insert, note, count)).toEqual([{ note: "7", n: 1 }]);
        await run(`DELETE FROM ${table}`);
      }
      const failing = keptOn({ run }, insert, note, { text: "SELECT 1 / 0", args: [] });
      await expect(failing).rejects.toMatchObject({ code: "22012" });
      expect((await other.run(`SELECT n FROM ${table}`)).rows).toHaveLength(0);
      expect((await run("SELECT current_setting('tenure.note', true) AS note")).rows[0]).toEqual({
        note: "",
      });
    });

    it("is sent as it is where another has prepared it meanwhile", async () => {
      const { run, sent } = await session(server.url, library);
      await kept(run);
      sent.length = 0;
      let isFirst = true;
      const elsewhere: KeptSession["run"] = (text) => {
        const answer = run(isFirst ? "EXECUTE not_here" : text);
        isFirst = false;
        return answer;
      };
      expect(await kept(elsewhere)).toEqual(ECHOED);
      expect(sent).toHaveLength(3);
      expect(sent[2]).not.toMatch(/EXECUTE|PREPARE/);
    });

    it("is sent as it is where its answer would have other columns", async () => {
      const { run } = await session(server.url, library);
      const table = `changing_${library}`;
      await run(`CREATE TABLE ${table} AS SELECT 1 AS a`);
      const all = { text: `SELECT * FROM ${table}`, args: [] };
      expect(await kept(run, all)).toEqual([{ a: 1 }]);
      await run(`ALTER TABLE ${table} ADD b integer DEFAULT 2`);
      expect(await kept(run, all)).toEqual([{ a: 1, b: 2 }]);
    });

    it("tells what it fails with, and has done nothing", async () => {
      const { run, sent } = await session(server.url, library);
      const table = `failing_${library}`;
      await run(`CREATE TABLE ${table} (id integer PRIMARY KEY)`);
      const insert = { text: `INSERT INTO ${table} VALUES (1), (1)`, args: [] };
      for (let time = 0; time < 2; time++) {
        await expect(kept(run, insert)).rejects.toMatchObject({ code: "23505" });
      }
      expect(sent.filter((text) => text.includes("PREPARE"))).toHaveLength(1);
      expect((await run(`SELECT * FROM ${table}`)).rows).toHaveLength(0);
    });
  });

  describeOn(pgbouncerProgram, "behind a pooler", () => {
    it("comes to be known to each session, whoever uses it", async () => {
      const pooler = await startPgBouncer(server, { default_pool_size: 1 });
      onTestFinished(() => pooler.dispose());
      const one = await session(pooler.url, "pg");
      const other = await session(pooler.url, "postgres");
      expect(await kept(one.run)).toEqual(ECHOED);
      expect(await kept(other.run)).toEqual(ECHOED);
      expect([one.sent, other.sent].map((sent) => sent.length)).toEqual([2, 1]);
    });
  });
});
