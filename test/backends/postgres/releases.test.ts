import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import type { PostgresBackend } from "../../../src/backends/postgres/open.js";
import type { Grant } from "../../../src/core/backend.js";
import { describeOn } from "../../servers/find.js";
import { postgresProgram, startPostgres, type PostgresServer } from "../../servers/postgres.js";
import { blocked, call, freshSchema, openOn, poolOn, request, take, until } from "./rig.js";

/** How a lease is ended, and whether it is said to have been live. */
const ENDINGS: Readonly<Record<string, (on: PostgresBackend, grant: Grant) => Promise<unknown>>> = {
  "a release": async (on, grant) => (await on.release([grant], call(20_000)))[0] === "released",
  "a release of several": async (on, grant) => {
    const other = { name: "nobody", holder: "h", token: grant.token };
    return (await on.release([grant, other], call(20_000)))[0] === "released";
  },
  "a break": async (on, { name, token }) => on.break(name, token, call(20_000)),
};

describeOn(postgresProgram, "the end of lease rows", () => {
  let server: PostgresServer;
  beforeAll(async () => void (server = await startPostgres()));
  afterAll(() => server.dispose());

  for (const [what, end] of Object.entries(ENDINGS)) {
    for (const lock of ["UPDATE", "KEY SHARE"]) {
      it(`says that it had ended, when ${what} got past FOR ${lock} too late`, async () => {
        const schema = freshSchema();
        const backend = await openOn(server.url, { schema });
        const grant = await take(backend, "slow", { ttlMs: 3_000 });
        const person = await poolOn(server).connect();
        onTestFinished(() => person.release(true));
        await person.query(`BEGIN; SELECT FROM "${schema}".lease FOR ${lock}`);
        const ending = end(backend, grant);
        await blocked(server, 1);
        const over = `SELECT FROM "${schema}".lease WHERE expires <= clock_timestamp()`;
        await until("its end", async () => (await server.query(over)).length === 1);
        await person.query("ROLLBACK");
        expect(await ending).toBe(false);
        expect(await server.query(`SELECT FROM "${schema}".lease`)).toHaveLength(0);
      });
    }

    it(`says that it was live when ${what} waited, and had the row in time`, async () => {
      const schema = freshSchema();
      const backend = await openOn(server.url, { schema });
      const grant = await take(backend, "waited");
      const person = await poolOn(server).connect();
      onTestFinished(() => person.release(true));
      await person.query(`BEGIN; SELECT FROM "${schema}".lease FOR UPDATE`);
      const ending = end(backend, grant);
      await blocked(server, 1);
      await person.query("ROLLBACK");
      expect(await ending).toBe(true);
    });
  }
});

/** Each with what it is to do while no standby answers. */
const WITHOUT_STANDBY: Readonly<Record<string, "goes on" | "waits">> = {
  "a release": "goes on",
  "a release of several": "goes on",
  // What a person did must not be undone by a crash.
  "a break": "waits",
};

describeOn(postgresProgram, "a server whose commits wait for a standby that is not there", () => {
  let server: PostgresServer;
  beforeAll(async () => void (server = await startPostgres()));
  afterAll(() => server.dispose());

  for (const [what, behaviour] of Object.entries(WITHOUT_STANDBY)) {
    it(`${what} ${behaviour}`, async () => {
      const schema = freshSchema();
      const backend = await openOn(server.url, { schema });
      const grant = await take(backend, "name");
      await server.query("ALTER SYSTEM SET synchronous_standby_names = 'absent'");
      await server.query("SELECT pg_reload_conf()");
      const setting = "SELECT FROM pg_settings WHERE name = 'synchronous_standby_names'";
      await until("the setting", async () =>
        (await server.query(`${setting} AND setting = 'absent'`)).length === 1,
      );
      const ending = ENDINGS[what]!(backend, grant);
      if (behaviour === "waits") {
        const waiting = "SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        await until("the wait", async () => (await server.query(waiting)).length === 1);
        await server.query("ALTER SYSTEM RESET synchronous_standby_names");
        await server.query("SELECT pg_reload_conf()");
      }
      expect(await ending).toBe(true);
      await server.query("ALTER SYSTEM RESET synchronous_standby_names");
      await server.query("SELECT pg_reload_conf()");
      await until("no setting", async () =>
        (await server.query(`${setting} AND setting = ''`)).length === 1,
      );
      expect(await server.query(`SELECT FROM "${schema}".lease`)).toHaveLength(0);
      // The session that released commits as it was told to.
      expect("grant" in (await backend.acquire(request("name"), call()))).toBe(true);
    });
  }
});
