import { afterAll, beforeAll, expect, it } from "vitest";
import type { MysqlBackend } from "../../../src/backends/mysql/open.js";
import type { Grant } from "../../../src/core/backend.js";
import { describeOn } from "../../servers/find.js";
import { mariadbProgram, startMariadb, type MariadbServer } from "../../servers/mariadb.js";
import {
  blocked, call, freshSchema, openOn, rows, take, transactionOn, until,
} from "./rig.js";

/** How a lease is ended, and whether it is said to have been live. */
const ENDINGS: Readonly<Record<string, (on: MysqlBackend, grant: Grant) => Promise<unknown>>> = {
  "a release": async (on, grant) => (await on.release([grant], call(20_000)))[0] === "released",
  "a release of several": async (on, grant) => {
    const other = { name: "nobody", holder: "h", token: grant.token };
    return (await on.release([grant, other], call(20_000)))[0] === "released";
  },
  "a break": async (on, { name, token }) => on.break(name, token, call(20_000)),
};

describeOn(mariadbProgram, "the end of lease rows", () => {
  let server: MariadbServer;
  beforeAll(async () => void (server = await startMariadb()));
  afterAll(() => server.dispose());

  const isLive = async (schema: string): Promise<boolean> => {
    const [row] = await server.query<{ live: number }>(
      `SELECT expires > UTC_TIMESTAMP(6) AS live FROM ${schema}.tenure_lease`,
    );
    return Number(row!.live) === 1;
  };

  for (const [what, end] of Object.entries(ENDINGS)) {
    it(`says that it had ended when the time was over before ${what} had the row`, async () => {
      const schema = freshSchema();
      const backend = await openOn(server.url, { schema });
      const grant = await take(backend, "slow", { ttlMs: 3_000 });
      const person = await transactionOn(server);
      await rows(person, `SELECT 1 FROM ${schema}.tenure_lease FOR UPDATE`);
      const ending = end(backend, grant);
      await blocked(server, 1);
      await until("its end", async () => !(await isLive(schema)));
      await person.query("ROLLBACK");
      expect(await ending).toBe(false);
      expect(await server.query(`SELECT 1 FROM ${schema}.tenure_lease`)).toHaveLength(0);
    });

    it(`says so, too, when a transaction that checked the lease held up ${what}`, async () => {
      const schema = freshSchema();
      const backend = await openOn(server.url, { schema });
      const grant = await take(backend, "checked", { ttlMs: 3_000 });
      const { sql, values } = backend.proof(grant);
      const checking = await transactionOn(server);
      expect(await rows(checking, sql, values)).toHaveLength(1);
      const ending = end(backend, grant);
      await blocked(server, 1);
      await until("its end", async () => !(await isLive(schema)));
      await checking.query("ROLLBACK");
      expect(await ending).toBe(false);
      expect(await server.query(`SELECT 1 FROM ${schema}.tenure_lease`)).toHaveLength(0);
    });

    it(`says that it was live when ${what} waited, and had the row in time`, async () => {
      const schema = freshSchema();
      const backend = await openOn(server.url, { schema });
      const grant = await take(backend, "waited");
      const person = await transactionOn(server);
      await rows(person, `SELECT 1 FROM ${schema}.tenure_lease FOR UPDATE`);
      const ending = end(backend, grant);
      await blocked(server, 1);
      await person.query("ROLLBACK");
      expect(await ending).toBe(true);
    });
  }

  it("tells each of many leases by its own row, in the order in which they were given", async () => {
    const backend = await openOn(server.url, { schema: freshSchema() });
    const grants: Grant[] = [];
    for (let i = 0; i < 150; i++) grants.push(await take(backend, `many ${(i * 7) % 150}`));
    const theirs = await take(backend, "theirs");
    const gone = { ...grants[0]!, name: "gone" };
    const older = { ...theirs, token: theirs.token - 1n };
    const wrong = { ...theirs, holder: "somebody else" } as Grant;
    const asked = [gone, ...grants, older, wrong];
    const outcomes = await backend.release(asked as Grant[], call(20_000));
    const released = grants.map(() => "released");
    expect(outcomes).toEqual(["not-held", ...released, "not-held", "not-held"]);
    expect((await backend.inspect("theirs", call()))?.token).toBe(theirs.token);
    expect(await backend.release([wrong], call())).toEqual(["not-held"]);
    expect(await backend.release([{ name: "theirs", holder: theirs.holder }], call())).toEqual([
      "released",
    ]);
  });
});
