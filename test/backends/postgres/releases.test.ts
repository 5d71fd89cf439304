import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import type { PostgresBackend } from "../../../src/backends/postgres/open.js";
import type { Grant } from "../../../src/core/backend.js";
import { describeOn } from "../../servers/find.js";
import { postgresProgram, startPostgres, type PostgresServer } from "../../servers/postgres.js";
import { blocked, call, freshSchema, openOn, poolOn, take, until } from "./rig.js";

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
