/** Factories that take options: one that they do not know is a mistake, and is told as one. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import Database from "better-sqlite3";
import { Redis } from "ioredis";
import { createPool } from "mysql2/promise";
import { Pool } from "pg";
import { afterAll, expect, it } from "vitest";
import { etcd } from "../../src/backends/etcd/open.js";
import { memory } from "../../src/backends/memory/open.js";
import { mysql } from "../../src/backends/mysql/open.js";
import { postgresAdvisory } from "../../src/backends/postgres-advisory/open.js";
import { postgres } from "../../src/backends/postgres/open.js";
import { redis } from "../../src/backends/redis/open.js";
import { redlock } from "../../src/backends/redlock/open.js";
import { sqlite } from "../../src/backends/sqlite/open.js";
import { zookeeper } from "../../src/backends/zookeeper/open.js";
import { cas } from "../../src/cas/open.js";
import { claims } from "../../src/claims/open.js";
import { connect } from "../../src/connect.js";
import { ArgumentTypeError } from "../../src/core/errors.js";
import { etcdFence } from "../../src/fences/etcd/open.js";
import { fileFence } from "../../src/fences/file/open.js";
import { memoryFence } from "../../src/fences/memory/open.js";
import { mysqlFence } from "../../src/fences/mysql/open.js";
import { postgresFence } from "../../src/fences/postgres/open.js";
import { redisFence } from "../../src/fences/redis/open.js";
import { sqliteFence } from "../../src/fences/sqlite/open.js";
import { zookeeperFence } from "../../src/fences/zookeeper/open.js";
import { idempotency } from "../../src/idempotency/open.js";
import { inbox } from "../../src/inbox/open.js";
import { outbox } from "../../src/outbox/open.js";
import { queue } from "../../src/queue/open.js";
import { reservations } from "../../src/reservations/open.js";
import { rows } from "../../src/rows/open.js";
import { cronCoordinator, schedule } from "../../src/schedule/open.js";

const folder = mkdtempSync(path.join(tmpdir(), "tenure-options-"));
const db = new Database(path.join(folder, "a.db"));
const client = new Redis({ lazyConnect: true });
const pg = new Pool({ port: 1 });
const my = createPool({ port: 1 });
afterAll(async () => {
  db.close();
  client.disconnect();
  await Promise.all([pg.end(), my.end()]);
  rmSync(folder, { recursive: true });
});

const bogus = { bogus: 1 } as object;
const servers = [1, 2, 3].map((port) => `redis://127.0.0.1:${port}`);
const factories: Readonly<Record<string, () => unknown>> = {
  connect: () => connect("memory:", bogus),
  memory: () => memory(bogus),
  sqlite: () => sqlite(path.join(folder, "b.db"), bogus),
  redis: () => redis("redis://127.0.0.1:1", bogus),
  redlock: () => redlock(servers, bogus),
  postgres: () => postgres(pg, bogus),
  postgresAdvisory: () => postgresAdvisory(pg, bogus),
  mysql: () => mysql(my, bogus),
  etcd: () => etcd("etcd://127.0.0.1:1", bogus),
  zookeeper: () => zookeeper("zookeeper://127.0.0.1:1", bogus),
  memoryFence: () => memoryFence(bogus),
  sqliteFence: () => sqliteFence(db, bogus),
  fileFence: () => fileFence(folder, bogus),
  redisFence: () => redisFence(client, bogus),
  postgresFence: () => postgresFence(pg, bogus),
  mysqlFence: () => mysqlFence(my, bogus),
  etcdFence: () => etcdFence("etcd://127.0.0.1:1", bogus),
  zookeeperFence: () => zookeeperFence("zookeeper://127.0.0.1:1", bogus),
  cas: () => cas(db, bogus),
  claims: () => claims(db, bogus),
  idempotency: () => idempotency(db, bogus),
  inbox: () => inbox(db, bogus),
  outbox: () => outbox(db, bogus),
  queue: () => queue(db, bogus),
  reservations: () => reservations(db, bogus),
  rows: () => rows(db, bogus),
  schedule: () => schedule(db, "job", "0 3 * * *", () => undefined, bogus),
  cronCoordinator: () => cronCoordinator(db, bogus),
};

it.each(Object.entries(factories))("%s", async (_, make) => {
  const error = await (async () => make())().catch((caught: unknown) => caught);
  expect(error).toBeInstanceOf(ArgumentTypeError);
  expect(error).toMatchObject({ option: "bogus" });
  expect((error as Error).message).toContain("the options are");
});
