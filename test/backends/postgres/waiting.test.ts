import { Client } from "pg";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { connect } from "../../../src/connect.js";
import { postgres } from "../../../src/backends/postgres/open.js";
import { faultProxy } from "../../../src/testing/fault-proxy.js";
import type { Tenure } from "../../../src/core/tenure.js";
import { describeOn } from "../../servers/find.js";
import { pgbouncerProgram, startPgBouncer } from "../../servers/pgbouncer.js";
import { postgresProgram, startPostgres, type PostgresServer } from "../../servers/postgres.js";
import {
  call, freshSchema, openOn, poolOn, refused, request, take, until,
} from "./rig.js";

describeOn(postgresProgram, "waiting for lease rows", () => {
  let server: PostgresServer;
  beforeAll(async () => void (server = await startPostgres()));
  afterAll(() => server.dispose());

  async function tenureOn(url: string, schema: string, library?: "pg" | "postgres"): Promise<Tenure> {
    const options = library === undefined ? { schema } : { schema, library };
    const tenure = await connect(await postgres(url, options));
    onTestFinished(() => tenure.close());
    return tenure;
  }

  const wanted = async (schema: string): Promise<boolean> => {
    const [row] = await server.query<{ wanted: boolean }>(`SELECT wanted FROM "${schema}".lease`);
    return row?.wanted === true;
  };

  describe.each(["pg", "postgres"] as const)("through %s", (library) => {
    it("a release wakes the waiter of another process long before it would look again", async () => {
      const schema = freshSchema();
      const a = await tenureOn(server.url, schema, library);
      const b = await tenureOn(server.url, schema, library);
      for (let i = 0; i < 5; i++) {
        const held = await a.acquire("x");
        const waiting = b.acquire("x", { wait: "20s" });
        await until("the waiter has left its mark", () => wanted(schema));
        await held.release();
        const before = performance.now();
        const lease = await waiting;
        expect(performance.now() - before).toBeLessThan(1_000);
        await lease.release();
      }
    });

    it("a waiter whose connection was ended listens again and looks at once (scenario 17)", async () => {
      const schema = freshSchema();
      const a = await tenureOn(server.url, schema, library);
      const b = await tenureOn(server.url, schema, library);
      const held = (await a.tryAcquire("x"))!;
      const waiting = b.acquire("x", { wait: "20s" });
      await until("the waiter has left its mark", () => wanted(schema));
      expect(await server.terminate("query LIKE 'LISTEN%'")).toBe(1);
      await held.release();
      const before = performance.now();
      await waiting;
      // Sooner than the five seconds after which it would look without any notice.
      expect(performance.now() - before).toBeLessThan(4_000);
    });
  });

  it("a renewal that shortens a lease is told to its waiters, and one that lengthens it is not", async () => {
    const schema = freshSchema();
    const holder = await openOn(server.url, { schema });
    const waiter = await openOn(server.url, { schema });
    if (waiter.waiting.kind !== "notify") throw new Error(waiter.waiting.kind);
    let wakes = 0;
    let woken = (): void => undefined;
    await waiter.waiting.subscribe("x", () => {
      wakes += 1;
      woken();
    }, call());
    const told = new Promise<void>((resolve) => (woken = resolve));
    const held = await take(holder, "x");
    await refused(waiter, "x");
    expect(await holder.renew([{ ...held, ttlMs: 60_000 }], call())).toEqual(["renewed"]);
    expect(await holder.renew([{ ...held, ttlMs: 2_000 }], call())).toEqual(["renewed"]);
    await told;
    expect(wakes).toBe(1);
    expect((await refused(waiter, "x")).leftMs).toBeLessThanOrEqual(2_000);
  });

  it("a waiter that was kept from leaving its mark looks again, and then hears of the release", async () => {
    const schema = freshSchema();
    const holder = await openOn(server.url, { schema });
    const waiter = await openOn(server.url, { schema });
    if (waiter.waiting.kind !== "notify") throw new Error(waiter.waiting.kind);
    let woken = (): void => undefined;
    const nextWake = (): Promise<void> => new Promise((resolve) => (woken = resolve));
    await waiter.waiting.subscribe("x", () => woken(), call());
    const held = await take(holder, "x");
    // Somebody looks at the row with a lock: the waiter's mark is not made, and nobody knows of it.
    const person = await poolOn(server).connect();
    await person.query(`BEGIN; SELECT FROM "${schema}".lease FOR UPDATE`);
    const again = nextWake();
    expect(await waiter.acquire(request("x"), call(2_000))).toEqual({ held: { why: "held" } });
    await person.query("ROLLBACK");
    person.release();
    expect(await wanted(schema)).toBe(false);
    await again;
    expect(await refused(waiter, "x")).toMatchObject({ holder: held.holder });
    const told = nextWake();
    await holder.release([held], call());
    await told;
    await take(waiter, "x");
  });

  it("nobody is told of a release that nobody waits for", async () => {
    const schema = freshSchema();
    const tenure = await tenureOn(server.url, schema);
    const heard: string[] = [];
    const listener = new Client({ connectionString: server.url });
    await listener.connect();
    listener.on("notification", ({ payload }) => heard.push(payload ?? ""));
    await listener.query(`LISTEN "tenure_${tenure.storeId}"`);
    await (await tenure.acquire("alone")).release();
    const held = await tenure.acquire("waited for");
    const other = await tenureOn(server.url, schema);
    const waiting = other.acquire("waited for", { wait: "20s" });
    await until("the waiter has left its mark", () => wanted(schema));
    await held.release();
    await (await waiting).release();
    await listener.query("SELECT 1");
    await listener.end();
    expect(heard).toEqual(["waited for"]);
  });

  it("a session that reconnects behind a cut keeps its lease, renewed on a new one", async () => {
    const proxy = await faultProxy({ port: server.port });
    onTestFinished(() => proxy.close());
    const url = server.url.replace(`:${server.port}`, `:${proxy.port}`);
    const tenure = await tenureOn(url, freshSchema());
    const lease = await tenure.acquire("x", { ttl: "30s" });
    proxy.cut();
    // A statement on its way into the cut has an unknown outcome: it is asked again.
    const works = (ask: () => Promise<unknown>): Promise<void> =>
      until("it works again", () => ask().then(() => true, () => false));
    await works(() => lease.renew());
    expect(lease.state).toBe("held");
    await works(() => lease.release());
  });

  it("is refused and served by the store's clock, whatever a client thinks (cases 14 to 16)", async () => {
    const schema = freshSchema();
    const a = await tenureOn(server.url, schema);
    const b = await tenureOn(server.url, schema);
    const lease = await a.acquire("x", { ttl: "1s", renew: false });
    expect(await b.tryAcquire("x")).toBeNull();
    const [row] = await server.query<{ left: number }>(
      `SELECT extract(epoch FROM expires - clock_timestamp())::float AS left
       FROM "${schema}".lease`,
    );
    expect(row!.left * 1_000).toBeGreaterThanOrEqual(lease.remaining());
    // The store's clock jumps: B is granted early, and A's token is the older one (scenario 20).
    await server.query(`UPDATE "${schema}".lease SET expires = clock_timestamp() - interval '1 s'`);
    const next = await b.acquire("x");
    expect(next.token).toBeGreaterThan(lease.token);
    await expect(lease.renew()).rejects.toMatchObject({ reason: "taken" });
    await next.release();
  });
});

describeOn(pgbouncerProgram, "waiting behind a pooler", () => {
  it("works by polling, with renewals and releases on any session (case 38)", async () => {
    const server = await startPostgres();
    const pooler = await startPgBouncer(server, { default_pool_size: 3 });
    try {
      for (const library of ["pg", "postgres"] as const) {
        const schema = freshSchema();
        const [a, b] = await Promise.all(
          [1, 2].map(async () => connect(await postgres(pooler.url, { schema, library }))),
        );
        const held = await a!.acquire("x");
        const waiting = b!.acquire("x", { wait: "20s" });
        await held.renew();
        await held.release();
        const lease = await waiting;
        expect(lease.token).toBeGreaterThan(held.token);
        await a!.close();
        await b!.close();
      }
    } finally {
      await pooler.dispose();
      await server.dispose();
    }
  });
});
