import { Pool } from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import { OutcomeUnknownError, StaleTokenError, UnavailableError } from "../../src/core/errors.js";
import { postgresFence } from "../../src/fences/postgres/open.js";
import { faultProxy, type FaultProxy } from "../../src/testing/fault-proxy.js";
import { describeOn } from "../servers/find.js";
import {
  postgresProgram,
  startPostgres,
  startStandby,
  type PostgresServer,
} from "../servers/postgres.js";
import { bearer } from "./bearers.js";

const add = "UPDATE account SET balance = balance + 1";
const ACCOUNT = `DROP SCHEMA IF EXISTS tenure CASCADE; DROP TABLE IF EXISTS account;
  CREATE TABLE account (owner text PRIMARY KEY, balance integer);
  INSERT INTO account VALUES ('a', 5)`;

const balanceOn = async (server: PostgresServer): Promise<unknown> =>
  (await server.query<{ balance: number }>("SELECT balance FROM account"))[0]?.balance;

function poolOn(port: number, max = 2): Pool {
  const pool = new Pool({ connectionString: `postgres://postgres@127.0.0.1:${port}/postgres`, max });
  pool.on("error", () => undefined);
  return pool;
}

describeOn(postgresProgram, "the Postgres fence when things break", () => {
  let server: PostgresServer;
  let proxy: FaultProxy;
  let pool: Pool;
  beforeAll(async () => void (server = await startPostgres()));
  afterAll(() => server.dispose());
  beforeEach(async () => {
    await server.query(ACCOUNT);
    proxy = await faultProxy({ port: server.port });
    pool = poolOn(proxy.port);
    await postgresFence(pool).install({ table: "account", resource: "owner" });
  });
  afterEach(async () => {
    await pool.end();
    await proxy.close();
  });

  /** Resolves once a session of the server is in a state. */
  async function seen(condition: string): Promise<void> {
    const text = `SELECT 1 FROM pg_stat_activity WHERE ${condition}`;
    while ((await server.query(text)).length === 0);
  }

  it("a network cut inside the work: nothing happened, and the handle goes on", async () => {
    const handle = await postgresFence(pool).arm(bearer(5), "a");
    const writing = handle.write(async (tx) => {
      await tx.query(add);
      proxy.cut();
      await tx.query(add);
    });
    await expect(writing).rejects.not.toBeInstanceOf(OutcomeUnknownError);
    // A successor waits for nobody: the server has rolled back.
    const next = await postgresFence(pool).arm(bearer(6), "a");
    await next.write((tx) => tx.query(add));
    expect(await balanceOn(server)).toBe(6);
  });

  it("a network cut before COMMIT arrives, or before its answer does: unknown, told by reading", async () => {
    const handle = await postgresFence(pool).arm(bearer(5), "a");
    for (const [direction, applied] of [["request", 0], ["reply", 1]] as const) {
      const before = Number(await balanceOn(server));
      const isThere = async (): Promise<boolean> =>
        (await balanceOn(server)) === before + 1 || direction === "request";
      let hold = (): void => undefined;
      const isHeld = new Promise<void>((resolve) => {
        hold = () => {
          proxy.hold(direction);
          resolve();
        };
      });
      const writing = handle.write(async (tx) => {
        await tx.query(add);
        hold();
      });
      const told = expect(writing).rejects.toThrow(OutcomeUnknownError);
      // It is idle between its statements, too: after a cut there the hold would come and stay.
      await Promise.race([isHeld, told]);
      if (direction === "request") await seen("state = 'idle in transaction'");
      while (!(await isThere()));
      proxy.cut();
      await proxy.heal();
      await told;
      const rows = await handle.read((tx) => tx.query("SELECT balance FROM account"));
      expect(rows).toEqual([{ balance: before + applied }]);
    }
    expect(handle.arm).toBe(3);
  });

  it("a session ended while its COMMIT waits for a standby: unknown, and it was applied", async () => {
    const handle = await postgresFence(pool).arm(bearer(5), "a");
    await server.query("ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    await server.query("SELECT pg_reload_conf()");
    const reset = async (): Promise<void> => {
      await server.query("ALTER SYSTEM RESET synchronous_standby_names");
      await server.query("SELECT pg_reload_conf()");
    };
    try {
      const setting = "SHOW synchronous_standby_names";
      while (Object.values((await server.query(setting))[0] ?? {})[0] !== "nobody");
      const told = expect(handle.write((tx) => tx.query(add))).rejects.toThrow(OutcomeUnknownError);
      await seen("wait_event = 'SyncRep'");
      expect(await server.terminate("wait_event = 'SyncRep'")).toBe(1);
      await told;
    } finally {
      await reset();
    }
    const rows = await handle.read((tx) => tx.query("SELECT balance FROM account"));
    expect(rows).toEqual([{ balance: 6 }]);
  });
});

describeOn(postgresProgram, "the Postgres fence after a failover", () => {
  it("keeps a mark that was replicated; one that was lost no longer refuses the older holder", async () => {
    const primary = await startPostgres();
    const link = await faultProxy({ port: primary.port });
    const pools: Pool[] = [];
    const fenceOn = (server: PostgresServer): ReturnType<typeof postgresFence> => {
      const pool = poolOn(server.port);
      pools.push(pool);
      return postgresFence(pool);
    };
    let standby: PostgresServer | undefined;
    try {
      await primary.query(ACCOUNT);
      const before = fenceOn(primary);
      await before.install({ table: "account", resource: "owner" });
      const five = bearer(5, { holder: "five" });
      await (await before.arm(five, "a")).write((tx) => tx.query(add));
      standby = await startStandby(link.port);
      await standby.inStepWith(primary);
      link.refuse();
      link.cut();
      // Of this the standby never hears.
      const six = bearer(6, { holder: "six" });
      const lost = await before.arm(six, "a");
      await lost.write((tx) => tx.query(add));
      expect(await balanceOn(primary)).toBe(7);
      await primary.kill();
      await standby.promote();

      const after = fenceOn(standby);
      expect(await balanceOn(standby)).toBe(6);
      // What was replicated still counts, for the triggers as well.
      await expect(after.arm(bearer(4), "a")).rejects.toThrow(StaleTokenError);
      await expect(standby.query(add)).rejects.toMatchObject({ code: "TN010" });
      // The mark of token 6 is gone: the older holder writes again, until the newer one has armed.
      const old = await after.arm(five, "a");
      await old.write((tx) => tx.query(add));
      const next = await after.arm(six, "a");
      await expect(old.write((tx) => tx.query(add))).rejects.toThrow(StaleTokenError);
      await next.write((tx) => tx.query(add));
      expect(await balanceOn(standby)).toBe(8);
      // To the lost primary the newer holder's handle cannot write any more.
      await expect(lost.write((tx) => tx.query(add))).rejects.toThrow(UnavailableError);
    } finally {
      await Promise.all(pools.map((pool) => pool.end()));
      await link.close();
      await standby?.dispose();
      await primary.dispose();
    }
  });
});
