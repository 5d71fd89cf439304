/** A connection that breaks while a statement of ours waits: nothing happened, and that is told. */
import { expect, it, onTestFinished } from "vitest";
import postgres from "postgres";
import { claims } from "../../src/claims/open.js";
import { OutcomeUnknownError, UnavailableError } from "../../src/core/errors.js";
import { outbox } from "../../src/outbox/open.js";
import { rows } from "../../src/rows/open.js";
import { faultProxy, type FaultProxy } from "../../src/testing/fault-proxy.js";
import type { MariadbServer } from "../servers/mariadb.js";
import type { PostgresServer } from "../servers/postgres.js";
import { onStores, type Spot, type Store } from "./stores.js";
import { until } from "./until.js";

/** The store behind a proxy, with the library that it is about. */
async function behindProxy(store: Store, spot: Spot): Promise<[target: any, FaultProxy]> {
  const server = store.server();
  const proxy = await faultProxy({ port: server.port });
  onTestFinished(() => proxy.close());
  const direct = typeof spot.target === "string" ? spot.target : server.url;
  const url = direct.replace(`:${server.port}/`, `:${proxy.port}/`);
  if (store.name !== "postgres") return [url, proxy];
  const sql = postgres(url, { max: 2, onnotice: () => undefined });
  onTestFinished(() => sql.end({ timeout: 1 }));
  return [sql, proxy];
}

/** Resolves once a session waits for a lock that another has. */
async function someoneWaits(store: Store, { options }: Spot): Promise<void> {
  if (store.dialect === "mysql") {
    // The tables of locks stand still while they are asked again and again.
    const look = `SELECT 1 FROM information_schema.global_status
      WHERE variable_name = 'INNODB_ROW_LOCK_CURRENT_WAITS' AND variable_value > 0`;
    await until(async () => (await (store.server() as MariadbServer).query(look)).length > 0);
    return;
  }
  const look = `SELECT 1 FROM pg_stat_activity
    WHERE wait_event_type = 'Lock' AND query LIKE '%${options.schema}%'`;
  await until(async () => (await (store.server() as PostgresServer).query(look)).length > 0);
}

const table = (spot: Spot, name: string): string =>
  spot.dialect === "mysql" ? `tenure_${name}` : `${spot.options.schema}.${name}`;

onStores(
  "a connection that breaks in a transaction",
  (store) => {
    it("has done nothing of a call, and the next one works", async () => {
      const spot = await store.fresh();
      const direct = await spot.open(claims);
      await direct.claim("k", "me");
      const [target, proxy] = await behindProxy(store, spot);
      const c = await spot.open((_target, more) => claims(target, more));
      const lock = await spot.openTransaction();
      await lock.query(`UPDATE ${table(spot, "claim")} SET reason = 'held' WHERE name = 'k'`);
      const completed = c.complete({ key: "k", owner: "me" }).catch((error: unknown) => error);
      await someoneWaits(store, spot);
      proxy.cut();
      expect(await completed).toBeInstanceOf(UnavailableError);
      expect(await completed).toMatchObject({ retryable: true });
      await lock.rollback();
      expect((await direct.inspect("k"))!.state).toBe("running");
      await until(() =>
        c.complete({ key: "k", owner: "me" }).then(
          () => true,
          (error: unknown) => {
            // Connections that were cut may still be in the pool.
            if (error instanceof UnavailableError) return false;
            throw error;
          },
        ),
      );
      expect((await direct.inspect("k"))!.state).toBe("done");
    });

    it("has done nothing of the work, unless that may have committed by itself", async () => {
      const spot = await store.fresh();
      await spot.query("CREATE TABLE effects (id INTEGER NOT NULL)");
      const [target, proxy] = await behindProxy(store, spot);
      const r = await rows(target);
      onTestFinished(() => r.close());
      const { schema } = spot.options;
      const insert = `INSERT INTO ${schema === undefined ? "" : `${schema}.`}effects VALUES (1)`;
      const broken = (how: (tx: any) => unknown): Promise<unknown> =>
        r
          .transaction(async (tx: any) => {
            await tx.query(insert);
            how(tx);
            proxy.cut();
            await tx.query(insert);
          })
          .catch((error: unknown) => error);
      expect(await broken(() => undefined)).toBeInstanceOf(UnavailableError);
      expect(await broken((tx) => tx.native)).toBeInstanceOf(OutcomeUnknownError);
      expect(await spot.query("SELECT * FROM effects")).toEqual([]);
    });
  },
  ["pg", "postgres", "mysql"],
);

onStores(
  "a connection of postgres.js that breaks after the work",
  (store) => {
    it("has committed nothing where COMMIT was not sent, and ends no process", async () => {
      const spot = await store.fresh();
      await spot.query("CREATE TABLE effects (id INTEGER NOT NULL)");
      const [target, proxy] = await behindProxy(store, spot);
      const r = await rows(target);
      onTestFinished(() => r.close());
      const insert = `INSERT INTO ${spot.options.schema}.effects VALUES (1)`;
      let cut: Promise<void> | undefined;
      const done = r.transaction(async (tx: any) => {
        await tx.query(insert);
        // What is sent next looks whether it is the same transaction still.
        proxy.silence("reply");
        cut = proxy.passed("request").then(() => proxy.cut());
      });
      const failure = await done.catch((error: unknown) => error);
      expect(failure).toBeInstanceOf(UnavailableError);
      await cut;
      await proxy.heal();
      expect(await spot.query("SELECT * FROM effects")).toEqual([]);
    });
  },
  ["postgres"],
);

onStores(
  "a relay whose connection breaks",
  (store) => {
    it("goes on", async () => {
      const spot = await store.fresh();
      const direct = await spot.open(outbox);
      await spot.begin((tx) => direct.write(tx, { key: "k", topic: "t", id: "m", payload: 1 }));
      await spot.query(
        `INSERT INTO ${table(spot, "outbox_relay")} (name, token, until_ms) VALUES ('relay', 0, 0)`,
      );
      const [target, proxy] = await behindProxy(store, spot);
      const o = await spot.open((_target, more) => outbox(target, more));
      const lock = await spot.openTransaction();
      await lock.query(`UPDATE ${table(spot, "outbox_relay")} SET token = 1`);
      const [published, told]: [string[], unknown[]] = [[], []];
      const stop = new AbortController();
      const relay = o.relay(({ id }) => published.push(id), {
        ...{ pollEvery: 10, signal: stop.signal },
        onError: (error) => told.push(error),
      });
      const ended = relay.then(() => true);
      await Promise.race([ended, someoneWaits(store, spot)]);
      proxy.cut();
      await Promise.race([ended, until(() => told.length > 0)]);
      await lock.rollback();
      await Promise.race([ended, until(() => published.length > 0)]);
      stop.abort();
      await relay;
      expect(published).toEqual(["m"]);
      expect(told[0]).toBeInstanceOf(UnavailableError);
    });
  },
  ["pg", "postgres"],
);
