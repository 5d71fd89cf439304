import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { connect } from "../../../src/connect.js";
import {
  LeaseLostError,
  OutcomeUnknownError,
  UnavailableError,
} from "../../../src/core/errors.js";
import { faultProxy, type FaultProxy } from "../../../src/testing/fault-proxy.js";
import { describeOn } from "../../servers/find.js";
import { mariadbProgram, startMariadb, type MariadbServer } from "../../servers/mariadb.js";
import { startChild } from "./children.js";
import {
  blocked, boundedCall, call, freshSchema, openOn, poolOn, refused, request, take, transactionOn,
  until,
} from "./rig.js";

describeOn(mariadbProgram, "lease rows when things go wrong", () => {
  let server: MariadbServer;
  beforeAll(async () => void (server = await startMariadb()));
  afterAll(() => server.dispose());

  const proxy = async (): Promise<FaultProxy> => {
    const made = await faultProxy({ port: server.port, sleep });
    onTestFinished(() => made.close());
    return made;
  };
  const through = (cable: FaultProxy): string => `mysql://root@127.0.0.1:${cable.port}/test`;

  it("tell the holder in time when the server falls silent (case 1)", async () => {
    const cable = await proxy();
    const tenure = await connect(through(cable));
    const sentMs = performance.now();
    const lease = await tenure.acquire("silent", { ttl: 2_000 });
    cable.silence();
    await new Promise((resolve) => lease.signal.addEventListener("abort", resolve));
    expect(performance.now() - sentMs).toBeLessThanOrEqual(2_000);
    expect(lease.signal.reason).toBeInstanceOf(LeaseLostError);
    expect(lease.signal.reason).toMatchObject({ reason: "deadline" });
    await until("the deadline", async () => lease.state === "lost");
    expect(() => lease.assertHeld()).toThrow(LeaseLostError);
    await cable.heal();
    await tenure.close();
  });

  it("do not keep a backend from closing when the server falls silent during a renewal", async () => {
    const cable = await proxy();
    const backend = await openOn(through(cable), { schema: freshSchema() });
    const grant = await take(backend, "unanswered");
    cable.silence();
    const asked = cable.dropped("request");
    const renewing = (async () => backend.renew([grant], call(3_600_000)))();
    const failed = renewing.catch((error: unknown) => error);
    await asked;
    await backend.close();
    expect(await failed).toBeInstanceOf(OutcomeUnknownError);
  });

  it("do not keep a backend from closing when the server is silent and nothing is asked", async () => {
    const cable = await proxy();
    const backend = await openOn(through(cable), { schema: freshSchema() });
    await take(backend, "idle");
    cable.silence();
    await backend.close();
  });

  it("survive a restart of the server, with a new pool and the same lease (case 4)", async () => {
    const tenure = await connect(server.url);
    const lease = await tenure.acquire("restarted", { ttl: 15_000 });
    await server.restart();
    await until("a renewal", async () => {
      await lease.renew().catch(() => undefined);
      return lease.state === "held" && lease.remaining() > 14_000;
    });
    expect(await tenure.inspect("restarted")).toMatchObject({ token: lease.token });
    expect(await lease.release()).toBe("released");
    await tenure.close();
  });

  it("grant once to an attempt whose answer was cut off (case 20)", async () => {
    const [cable, schema] = [await proxy(), freshSchema()];
    const [cut, other] = [
      await openOn(through(cable), { schema }),
      await openOn(server.url, { schema }),
    ];
    const wish = request("cut off", { holder: "me" });
    await take(cut, "warm");
    cable.silence("reply");
    const first = (async () => cut.acquire(wish, boundedCall(1_000)))().catch((e: unknown) => e);
    await until("the grant", async () => (await other.inspect(wish.name, call())) !== null);
    const shown = await other.inspect(wish.name, call());
    expect(await first).toBeInstanceOf(OutcomeUnknownError);
    await cable.heal();
    const again = await cut.acquire(wish, call());
    expect(again).toMatchObject({ grant: { token: shown!.token, holder: "me" } });
  });

  it("leave nothing half-done when the network is cut inside the transaction", async () => {
    const [cable, schema] = [await proxy(), freshSchema()];
    const [cut, other] = [
      await openOn(through(cable), { schema }),
      await openOn(server.url, { schema }),
    ];
    const counter = await transactionOn(server);
    await counter.query(`SELECT 1 FROM ${schema}.tenure_counter FOR UPDATE`);
    const wish = request("cut in two");
    const attempt = (async () => cut.acquire(wish, call(4_000)))().catch((e: unknown) => e);
    await blocked(server, 1);
    cable.cut();
    expect(await attempt).toBeInstanceOf(OutcomeUnknownError);
    const clean = [{ name: wish.name, holder: wish.holder }];
    // The server goes on with it, and nobody may say yet that nothing is left of it.
    expect(await cut.release(clean, call())).toEqual(["unknown"]);
    await counter.query("COMMIT");
    await until("it is granted after all", async () => {
      return (await other.inspect(wish.name, call()))?.holder === wish.holder;
    });
    expect(await cut.release(clean, call())).toEqual(["released"]);
    expect((await take(other, wish.name)).token).toBeGreaterThan(0n);
  });

  it("give up waiting for a lock in the server before the caller does", async () => {
    const schema = freshSchema();
    const backend = await openOn(server.url, { schema });
    const counter = await transactionOn(server);
    await counter.query(`SELECT 1 FROM ${schema}.tenure_counter FOR UPDATE`);
    expect(await backend.acquire(request("busy"), call(4_000))).toEqual({ held: { why: "held" } });
    await counter.query("COMMIT");
    await take(backend, "busy");
  });

  it("leave no lock and no changed session when the server breaks off a grant", async () => {
    const schema = freshSchema();
    const pool = poolOn(server, { connectionLimit: 1 });
    const backend = await openOn(pool, { schema });
    const old = await take(backend, "broken off", { ttlMs: 50 });
    await sleep(60);
    const counter = await transactionOn(server);
    await counter.query(`SELECT 1 FROM ${schema}.tenure_counter FOR UPDATE`);
    // Has locked the old row, and waits for the counter.
    const attempt = (async () => backend.acquire(request("broken off"), call(60_000)))();
    const failed = attempt.catch((error: unknown) => error);
    await blocked(server, 1);
    const [waiting] = await server.query<{ id: number }>(
      "SELECT id FROM information_schema.processlist WHERE info LIKE 'UPDATE tenure_counter%'",
    );
    await server.query(`KILL QUERY ${waiting!.id}`);
    expect(await failed).toBeInstanceOf(OutcomeUnknownError);
    await counter.query("COMMIT");
    expect((await take(backend, "broken off")).token).toBeGreaterThan(old.token);
    const [seen] = await pool.query("SELECT @@innodb_lock_wait_timeout AS seconds");
    expect(seen).toEqual([{ seconds: 50 }]);
  });

  it("call a server that is down, or full of connections, unavailable: never held", async () => {
    const small = await startMariadb({ "max-connections": 10 });
    onTestFinished(() => small.dispose());
    const backend = await openOn(small.url, { schema: "leases" });
    const grant = await take(backend, "a");
    const crowd = poolOn(small, { connectionLimit: 12 });
    const taken = await Promise.allSettled(
      Array.from({ length: 12 }, () => crowd.getConnection()),
    );
    // One more is kept for those with all rights.
    const full = await openOn(small.url, { schema: "leases" }).catch((error: unknown) => error);
    expect(full).toBeInstanceOf(UnavailableError);
    expect(full).toMatchObject({ message: expect.stringMatching(/too many connections/) });
    expect(await backend.renew([grant], call())).toEqual(["renewed"]);
    for (const one of taken) if (one.status === "fulfilled") one.value.destroy();
    await small.kill();
    const failures = [
      (async () => backend.acquire(request("b"), call()))(),
      (async () => backend.renew([grant], call()))(),
    ].map((failing) => failing.catch((error: unknown) => error));
    for (const failure of await Promise.all(failures)) {
      expect(failure).toMatchObject({ family: expect.stringMatching(/^un(available|known)$/) });
    }
    await expect((async () => backend.acquire(request("c"), call()))()).rejects.toThrow(
      /cannot be reached/,
    );
    await small.start();
    await until("it is back", async () => {
      const renewed = async (): Promise<boolean> =>
        (await backend.renew([grant], call()))[0] === "renewed";
      return renewed().catch(() => false);
    });
    expect((await refused(backend, "a")).token).toBe(grant.token);
  });

  it("go to a waiter when another was killed, and to nobody dead (case 23)", async () => {
    const schema = freshSchema();
    const backend = await openOn(server.url, { schema });
    const grant = await take(backend, "wanted");
    const waiters = Array.from({ length: 3 }, () => startChild(server.url, schema, "wait"));
    for (const waiter of waiters) await waiter.says();
    waiters[0]!.process.kill("SIGKILL");
    expect(await waiters[0]!.ended).toBeNull();
    expect(await backend.release([grant], call())).toEqual(["released"]);
    const tokens = await Promise.all(
      waiters.slice(1).map(async (waiter) => BigInt(String((await waiter.says())["token"]))),
    );
    expect(tokens[0]).not.toBe(tokens[1]);
    for (const token of tokens) expect(token).toBeGreaterThan(grant.token);
    expect(await Promise.all(waiters.slice(1).map(({ ended }) => ended))).toEqual([0, 0]);
  });

  it("expire by the server's clock, whatever sessions and holders have on theirs (case 15)", async () => {
    const schema = freshSchema();
    const backend = await openOn(server.url, { schema });
    await server.query("SET GLOBAL time_zone = '+11:00'");
    onTestFinished(async () => void (await server.query("SET GLOBAL time_zone = SYSTEM")));
    const elsewhere = await openOn(server.url, { schema });
    const grant = await take(elsewhere, "fresh", { ttlMs: 5_000 });
    expect((await refused(backend, "fresh")).leftMs).toBeGreaterThan(4_000);
    expect(await backend.renew([grant], call())).toEqual(["renewed"]);
    const short = await take(backend, "short", { ttlMs: 100 });
    await sleep(110);
    expect((await take(elsewhere, "short")).token).toBeGreaterThan(short.token);
  });

  it("count a paused request from when it comes (case 16)", async () => {
    const [cable, schema] = [await proxy(), freshSchema()];
    const [slow, other] = [
      await openOn(through(cable), { schema }),
      await openOn(server.url, { schema }),
    ];
    await take(slow, "warm");
    cable.hold("request");
    const late = (async () => slow.acquire(request("late", { ttlMs: 300 }), call()))();
    await sleep(400);
    const first = await take(other, "late", { ttlMs: 20_000 });
    await cable.heal();
    expect(await late).toMatchObject({ held: { token: first.token } });
  });
});
