/** How answers come, by the store that the target names. Compiled, never run. */
import type Database from "better-sqlite3";
import { createPool as createCorePool } from "mysql2";
import { createPool } from "mysql2/promise";
import { Client, Pool } from "pg";
import postgres from "postgres";
import { claims, type Claim } from "../../src/claims/open.js";
import { inbox } from "../../src/inbox/open.js";
import { lockRow, rows, transition, type Locked } from "../../src/rows/open.js";

declare const db: Database.Database;
declare const url: string;

const inFile = await claims("sqlite:jobs.db");
const owned: boolean = inFile.within(db).claim("k", "o");
const leased: Claim | null = inFile.within(db).claim("k", "o", { lease: "30s" });
const later: Promise<boolean> = inFile.claim("k", "o");
const overObject = await claims(db);
const alsoOwned: boolean = overObject.within(db).claim("k", "o");
const count: number = await inFile.transaction((tx) => tx.all("SELECT 1").length);
// @ts-expect-error nobody would await it
await inFile.transaction(async (tx) => tx.all("SELECT 1"));
// @ts-expect-error a transaction of another store
inFile.within(new Client());

const inPostgres = await claims("postgres://host/db");
const inPool = await claims(new Pool());
const inSql = await claims(postgres());
for (const c of [inPostgres, inPool, inSql]) {
  const promised: Promise<Claim | null> = c.within(new Client()).next("o", { lease: 1 });
  await c.transaction(async (tx) => (await tx.query<{ id: number }>("SELECT 1"))[0]?.id);
}
const inMysql = await claims("mysql://host/db");
const inMysqlPool = await claims(createPool("mysql://host/db"));
const inCorePool = await claims(createCorePool("mysql://host/db"));
for (const c of [inMysql, inMysqlPool, inCorePool]) {
  const promised: Promise<void> = c.within(async () => []).complete({ key: "k", owner: "o" });
}
const inAny = await claims(url);
const awaited: boolean = await inAny.claim("k", "o");

const inRedis = await claims("redis://host");
const won: boolean = await inRedis.claim("k", "o");
// @ts-expect-error Redis has no transactions
inRedis.within(db);
// @ts-expect-error no such store
await claims("oracle://host").then((c) => c.within(db).claim("k", "o").valueOf());

const box = await inbox("sqlite:jobs.db");
const first: boolean = box.record(db, "e", "c");
const ran: boolean = await box.once("e", "c", (tx) => tx.run("INSERT INTO t VALUES (1)"));
// @ts-expect-error nobody would await it
await box.once("e", "c", async (tx) => tx.run("INSERT INTO t VALUES (1)"));
const pgBox = await inbox("postgres://host/db");
await pgBox.once("e", "c", async (tx) => {
  const locked: Locked = await lockRow(tx, "accounts", { id: 7 }, { nowait: true });
  const { changed } = await transition(tx, { table: "t", id: 7, from: "a", to: "b" });
});
const now: Locked = lockRow(db, "accounts", { id: 7 });
const r = await rows(new Pool());
const { state } = await transition(r, { table: "t", id: 7n, from: "a", to: "b" });
