import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { connect } from "../../../src/connect.js";
import { OutcomeUnknownError } from "../../../src/core/errors.js";
import { faultProxy } from "../../../src/testing/fault-proxy.js";
import { describeOn } from "../../servers/find.js";
import { mariadbProgram, startMariadb, type MariadbServer } from "../../servers/mariadb.js";
import {
  blocked, call, freshSchema, openOn, poolOn, refused, request, rows, take, transactionOn, until,
} from "./rig.js";

describeOn(mariadbProgram, "renewals of lease rows", () => {
  let server: MariadbServer;
  beforeAll(async () => void (server = await startMariadb()));
  afterAll(() => server.dispose());

  it("do not wait for a caller's pool whose ten connections are all busy", async () => {
    const pool = poolOn(server, { connectionLimit: 10 });
    const backend = await openOn(pool, { schema: freshSchema() });
    const grant = await take(backend, "busy");
    const busy = await Promise.all(Array.from({ length: 10 }, () => pool.getConnection()));
    expect(await backend.renew([grant], call(1_000))).toEqual(["renewed"]);
    // Others wait for the pool, and are told so rather than kept.
    await expect(backend.acquire(request("more"), call(500))).rejects.toThrow(
      /no free connection in time: all are in use; begin fewer calls at once, or give a pool/,
    );
    for (const connection of busy) connection.release();
    await take(backend, "more");
  });

  it("are one statement for all, and pass over a row that somebody has locked", async () => {
    const schema = freshSchema();
    const backend = await openOn(server.url, { schema });
    const grants = await Promise.all(
      Array.from({ length: 200 }, (_, i) => take(backend, `many ${i}`)),
    );
    const calls = async (): Promise<number> => {
      const [row] = await server.query<{ Value: string }>("SHOW GLOBAL STATUS LIKE 'Com_call%'");
      return Number(row!.Value);
    };
    const before = await calls();
    expect(await backend.renew(grants, call())).toEqual(grants.map(() => "renewed"));
    expect((await calls()) - before).toBe(1);
    const person = await transactionOn(server);
    await person.query(`SELECT 1 FROM ${schema}.tenure_lease WHERE name = 'many 7' FOR UPDATE`);
    const outcomes = await backend.renew(grants, call());
    expect(outcomes[7]).toBe("unavailable");
    expect(outcomes.filter((outcome) => outcome === "renewed")).toHaveLength(199);
    await person.query("ROLLBACK");
    expect(await backend.renew([grants[7]!], call())).toEqual(["renewed"]);
  });

  it("do not bring back a lease that ended while they waited for the table", async () => {
    const schema = freshSchema();
    const backend = await openOn(server.url, { schema });
    const [short, long] = [await take(backend, "short", { ttlMs: 3_000 }), await take(backend, "long")];
    const person = await poolOn(server).getConnection();
    onTestFinished(() => person.destroy());
    await person.query(`LOCK TABLES ${schema}.tenure_lease WRITE`);
    const renewing = backend.renew([short, long], call(20_000));
    const waits = "SELECT 1 FROM information_schema.processlist WHERE state LIKE '%metadata lock'";
    await until("the renewal waits", async () => (await server.query(waits)).length === 1);
    const live = `SELECT 1 FROM ${schema}.tenure_lease WHERE expires > UTC_TIMESTAMP(6)`;
    await until("its end", async () => (await rows(person, live)).length === 1);
    await person.query("UNLOCK TABLES");
    expect(await renewing).toEqual([{ lost: "absent" }, "renewed"]);
    expect(await backend.inspect("short", call())).toBeNull();
  });

  it("go on while a transaction checks the lease; release and break wait", async () => {
    const backend = await openOn(server.url, { schema: freshSchema() });
    const grant = await take(backend, "checked");
    const { sql, values } = backend.proof(grant);
    const checking = await transactionOn(server);
    expect(await rows(checking, sql, values)).toHaveLength(1);
    expect(await backend.renew([grant], call())).toEqual(["renewed"]);
    const breaking = backend.break("checked", grant.token, call(20_000));
    await blocked(server, 1);
    await refused(backend, "checked");
    await checking.query("COMMIT");
    expect(await breaking).toBe(true);
    expect(await rows(checking, sql, values)).toHaveLength(0);
  });

  it("find a new connection after theirs was killed (case 5)", async () => {
    const backend = await openOn(server.url, { schema: freshSchema() });
    const grant = await take(backend, "ended");
    expect(await server.terminate("TRUE")).toBeGreaterThan(0);
    const again = async (): Promise<boolean> =>
      (await backend.renew([grant], call()))[0] === "renewed";
    await until("a renewal", () => again().catch(() => false));
    expect((await backend.inspect("ended", call()))?.token).toBe(grant.token);
  });

  it("find a new connection after the network failed under one of them (case 4)", async () => {
    const cable = await faultProxy({ port: server.port });
    onTestFinished(() => cable.close());
    const url = server.url.replace(`:${server.port}`, `:${cable.port}`);
    const backend = await openOn(url, { schema: freshSchema() });
    const grant = await take(backend, "reset");
    expect(await backend.renew([grant], call())).toEqual(["renewed"]);
    // Reset while its answer is waited for: the library has no event for that.
    cable.silence("reply");
    const asked = cable.passed("request");
    const renewing = (async () => backend.renew([grant], call()))();
    const failed = renewing.catch((error: unknown) => error);
    await asked;
    cable.cut();
    expect(await failed).toBeInstanceOf(OutcomeUnknownError);
    await cable.heal();
    expect(await backend.renew([grant], call())).toEqual(["renewed"]);
  });

  it("keep a lease through killed connections, and lose it at once with its row (case 5)", async () => {
    const tenure = await connect(server.url);
    const lease = await tenure.acquire("killed", { ttl: 3_000 });
    await server.terminate("TRUE");
    await until("a renewal", async () => {
      await lease.renew().catch(() => undefined);
      return lease.state === "held" && lease.remaining() > 2_500;
    });
    await server.query("DELETE FROM test.tenure_lease");
    await new Promise((resolve) => lease.signal.addEventListener("abort", resolve));
    expect(lease.signal.reason).toMatchObject({ reason: "absent" });
    await tenure.close();
  });

  it("answer lost when the row was deleted, and who holds when it was taken over", async () => {
    const schema = freshSchema();
    const backend = await openOn(server.url, { schema });
    const grant = await take(backend, "row");
    await server.query(`DELETE FROM ${schema}.tenure_lease`);
    expect(await backend.renew([grant], call())).toEqual([{ lost: "absent" }]);
    const next = await take(backend, "row");
    const [outcome] = await backend.renew([grant], call());
    expect(outcome).toMatchObject({ lost: { holder: next.holder, token: next.token } });
    expect(await backend.release([grant], call())).toEqual(["not-held"]);
    expect((await backend.inspect("row", call()))?.token).toBe(next.token);
  });

  it("leave no lock behind when the server breaks them off half-way", async () => {
    const schema = freshSchema();
    const backend = await openOn(server.url, { schema });
    const grants = await Promise.all(["a", "b"].map((name) => take(backend, name)));
    // Holds up the update after its rows are locked.
    await server.query(`CREATE TRIGGER ${schema}.slow BEFORE UPDATE ON ${schema}.tenure_lease
      FOR EACH ROW DO SLEEP(30)`);
    const renewing = (async () => backend.renew(grants, call(20_000)))();
    const failed = renewing.catch((error: unknown) => error);
    const asleep = "SELECT id FROM information_schema.processlist WHERE state = 'User sleep'";
    let sleeper: { id: number } | undefined;
    await until("the update sleeps", async () => {
      [sleeper] = await server.query<{ id: number }>(asleep);
      return sleeper !== undefined;
    });
    await server.query(`KILL QUERY ${sleeper!.id}`);
    expect(await failed).toMatchObject({ code: "TENURE_OUTCOME_UNKNOWN" });
    await server.query(`DROP TRIGGER ${schema}.slow`);
    expect(await backend.renew(grants, call())).toEqual(["renewed", "renewed"]);
    expect(await backend.release(grants, call())).toEqual(["released", "released"]);
  });
});
