import { afterAll, beforeAll, expect, it } from "vitest";
import { describeOn } from "../../servers/find.js";
import { postgresProgram, startPostgres, type PostgresServer } from "../../servers/postgres.js";
import { blocked, call, freshSchema, openOn, poolOn, refused, request, take } from "./rig.js";

describeOn(postgresProgram, "renewals of lease rows", () => {
  let server: PostgresServer;
  beforeAll(async () => void (server = await startPostgres()));
  afterAll(() => server.dispose());

  it("do not wait for a caller's pool whose ten connections are all busy", async () => {
    const pool = poolOn(server, { max: 10 });
    const backend = await openOn(pool, { schema: freshSchema() });
    const grant = await take(backend, "busy");
    const busy = await Promise.all(Array.from({ length: 10 }, () => pool.connect()));
    const sleeping = busy.map((client) => client.query("SELECT pg_sleep(2)"));
    expect(await backend.renew([grant], call(1_000))).toEqual(["renewed"]);
    expect(pool.waitingCount).toBe(0);
    await Promise.all(sleeping);
    for (const client of busy) client.release();
  });

  it("are one statement for all, and pass over a row that somebody has locked", async () => {
    const schema = freshSchema();
    const backend = await openOn(server.url, { schema });
    const grants = await Promise.all(
      Array.from({ length: 200 }, (_, i) => take(backend, `many ${i}`)),
    );
    await server.query("SELECT pg_stat_reset()");
    expect(await backend.renew(grants, call())).toEqual(grants.map(() => "renewed"));
    const person = await poolOn(server).connect();
    await person.query("BEGIN");
    await person.query(`SELECT 1 FROM ${schema}.lease WHERE name = 'many 7' FOR UPDATE`);
    const outcomes = await backend.renew(grants, call());
    expect(outcomes[7]).toBe("unavailable");
    expect(outcomes.filter((outcome) => outcome === "renewed")).toHaveLength(199);
    await person.query("ROLLBACK");
    person.release();
    expect(await backend.renew([grants[7]!], call())).toEqual(["renewed"]);
  });

  it("go on while a transaction checks the lease; take-over, release and break wait", async () => {
    const backend = await openOn(server.url, { schema: freshSchema() });
    const grant = await take(backend, "checked");
    const { sql, values } = backend.proof(grant);
    const checking = await poolOn(server).connect();
    await checking.query("BEGIN");
    expect((await checking.query(sql, [...values])).rows).toHaveLength(1);
    expect(await backend.renew([grant], call())).toEqual(["renewed"]);
    const breaking = backend.break("checked", grant.token, call(10_000));
    await blocked(server, 1);
    await refused(backend, "checked");
    await checking.query("COMMIT");
    expect(await breaking).toBe(true);
    expect((await checking.query(sql, [...values])).rows).toHaveLength(0);
    checking.release();
  });

  it("find a new connection after theirs was ended by the server (case 5)", async () => {
    const backend = await openOn(server.url, { schema: freshSchema() });
    const grant = await take(backend, "ended");
    expect(await server.terminate("true")).toBeGreaterThan(0);
    expect(await backend.renew([grant], call())).toEqual(["renewed"]);
    expect((await backend.inspect("ended", call()))?.token).toBe(grant.token);
  });

  it("answer lost when the row was deleted, and who holds when it was taken over", async () => {
    const schema = freshSchema();
    const backend = await openOn(server.url, { schema });
    const grant = await take(backend, "row");
    await server.query(`DELETE FROM ${schema}.lease`);
    expect(await backend.renew([grant], call())).toEqual([{ lost: "absent" }]);
    const next = await take(backend, "row");
    const [outcome] = await backend.renew([grant], call());
    expect(outcome).toMatchObject({ lost: { holder: next.holder, token: next.token } });
  });

  it("of a repeat by the same holder last from the repeat (case 20)", async () => {
    const backend = await openOn(server.url, { schema: freshSchema() });
    const wish = request("again", { ttlMs: 1_000 });
    const first = await backend.acquire(wish, call());
    const second = await backend.acquire({ ...wish, ttlMs: 60_000 }, call());
    if (!("grant" in first) || !("grant" in second)) throw new Error("refused");
    expect(second.grant.token).toBe(first.grant.token);
    expect((await backend.inspect("again", call()))!.leftMs).toBeGreaterThan(50_000);
  });
});
