/** What the factories of the patterns say of a store that they do not have. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { drizzle } from "drizzle-orm/node-postgres";
import { Kysely, PostgresDialect } from "kysely";
import { Pool } from "pg";
import { expect, it, onTestFinished } from "vitest";
import { cas } from "../../src/cas/open.js";
import { claims } from "../../src/claims/open.js";
import { idempotency } from "../../src/idempotency/open.js";
import { inbox } from "../../src/inbox/open.js";
import { outbox } from "../../src/outbox/open.js";
import { queue } from "../../src/queue/open.js";
import { reservations } from "../../src/reservations/open.js";
import { rows } from "../../src/rows/open.js";
import { cronCoordinator, schedule } from "../../src/schedule/open.js";

type Opens = (url: string) => Promise<{ close(): Promise<unknown> }>;

const FACTORIES: Readonly<Record<string, Opens>> = {
  cas,
  claims: (url) => claims(url),
  idempotency: (url) => idempotency(url),
  inbox,
  outbox,
  queue,
  reservations,
  rows,
  cronCoordinator,
  schedule: (url) => schedule(url, "job", "0 3 * * *", () => undefined),
};

/** By scheme a URL whose store is not there: what knows the scheme tries, or waits, to reach it. */
const URLS: Readonly<Record<string, string>> = {
  "postgres:": "postgres://127.0.0.1:1/d",
  "mysql:": "mysql://127.0.0.1:1/d",
  "redis:": "redis://127.0.0.1:1",
  "rediss:": "rediss://127.0.0.1:1",
  "etcd:": "etcd://127.0.0.1:1",
  "etcds:": "etcds://127.0.0.1:1",
};

/** Whether a factory takes a URL, be its store there or not. */
async function takes(opens: Opens, url: string): Promise<boolean> {
  const opened = await opens(url).catch((error: unknown) => error as Error);
  if (!(opened instanceof Error)) await opened.close();
  return !(opened instanceof TypeError);
}

it.each(Object.entries(FACTORIES))("%s lists the URLs that it takes", async (_, opens) => {
  const folder = mkdtempSync(path.join(tmpdir(), "tenure-urls-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const taken = [];
  for (const [scheme, url] of Object.entries(URLS)) {
    if (await takes(opens, url)) taken.push(scheme);
  }
  if (await takes(opens, `sqlite:${path.join(folder, "a.db")}`)) taken.push("sqlite:");
  for (const wrong of ["zookeeper://h", "nowhere", "memory:"]) {
    const error = await opens(wrong).catch((caught: unknown) => caught as Error);
    expect(error).toBeInstanceOf(TypeError);
    const listed = /must be a URL \((.*?)\)/.exec((error as Error).message)?.[1]?.split(" ") ?? [];
    const schemes = listed.map((one) => one.replace(/(?<=:).*/, ""));
    expect(schemes.toSorted()).toEqual(taken.toSorted());
  }
});

it("says what to give of a query builder", async () => {
  const pool = new Pool(); // connects with the first statement, and none is sent
  const builders = [new Kysely({ dialect: new PostgresDialect({ pool }) }), drizzle.mock()];
  for (const builder of builders) {
    const refused = queue(builder as never);
    await expect(refused).rejects.toThrow(/the pool or database object that it was made over/);
  }
  await expect(queue({} as never)).rejects.toThrow(/client of such a store, got an object/);
  await pool.end();
});
