/** A process that works jobs off, relays messages or keeps a schedule, until it is killed. */
import Database from "better-sqlite3";
import { Pool } from "pg";
import { setTimeout as sleep } from "node:timers/promises";
import type { TokenBearer } from "../../../src/core/token.js";
import { postgresFence } from "../../../src/fences/postgres/open.js";
import { sqliteFence } from "../../../src/fences/sqlite/open.js";
import { outbox } from "../../../src/outbox/open.js";
import { queue } from "../../../src/queue/open.js";
import { schedule } from "../../../src/schedule/open.js";
import { say, serve } from "../serve.js";
import { withWallClockOff } from "../wrong-clock.js";

let url = "";
let options: object = {};
let pool: any;
let db: any;

/** Values are numbers and ids: nothing to be quoted. */
async function run(tx: any, text: string): Promise<void> {
  if (db === undefined) await tx.query(text);
  else tx.exec(text);
}

/** One transaction: a statement, and then what a pattern does in it. */
async function transact(text: string, ...then: ((tx: any) => unknown)[]): Promise<void> {
  if (db !== undefined) {
    db.transaction(() => {
      db.exec(text);
      for (const one of then) one(db);
    }).immediate();
    return;
  }
  const client = await pool.connect();
  try {
    await client.query("BEGIN");
    await client.query(text);
    for (const one of then) await one(client);
    await client.query("COMMIT");
  } catch (error) {
    await client.query("ROLLBACK");
    throw error;
  } finally {
    client.release();
  }
}

const named = (error: any): string => `${error.name}`;

let q: any;
let box: any;
let job: any;
let handle: any;
let kept: any;
let outcome = "none";

serve({
  async open({ target, wallOffMs }) {
    ({ url, options } = target);
    if (wallOffMs !== undefined) options = { ...options, runtime: withWallClockOff(wallOffMs) };
    if (url.startsWith("sqlite:")) {
      db = new Database(url.slice("sqlite:".length), { timeout: 5_000 });
    } else {
      pool = new Pool({ connectionString: url, max: 3 });
      pool.on("error", () => undefined);
    }
  },

  /** Works off; an effect and the completion of its job are one transaction. */
  async work({ lease, maxTries }) {
    q = await queue(url, { ...options, maxTries });
    const handler = async (taken: any): Promise<void> => {
      const { n } = taken.payload;
      const facts = `'${taken.key}', ${n}, ${taken.token}`;
      await run(db ?? pool, `INSERT INTO begun (job_key, n, token) VALUES (${facts})`);
      await sleep(Math.random() * 10);
      await transact(`INSERT INTO effects (job_key, n, token) VALUES (${facts})`, (tx) =>
        taken.complete(tx),
      );
    };
    void q.work(handler, { lease, concurrency: 3, pollEvery: 30 });
  },

  /** Relays into a table. */
  async relay({ lease }) {
    box = await outbox(url, options);
    const publish = async ({ id, key, payload, token }: any): Promise<void> => {
      const facts = `'${id}', '${key}', ${payload.n}, ${token}`;
      await run(db ?? pool, `INSERT INTO published (id, msg_key, n, token) VALUES (${facts})`);
    };
    void box.relay(publish, { lease, pollEvery: 20, batch: 20 });
  },

  /** Keeps a schedule; an effect and the completion of its run are one transaction. */
  async keep({ name, lease, pauseMs }) {
    const work = async (fire: any): Promise<void> => {
      await sleep(Math.random() * pauseMs);
      const facts = `${fire.fireMs}, ${fire.token}`;
      await transact(`INSERT INTO effects (fire_ms, token) VALUES (${facts})`, (tx) =>
        fire.complete(tx),
      );
    };
    const more = { ...options, lease, overlap: "allow", worker: name, maxTries: 1_000 };
    kept = await schedule(url, "race", "* * * * * *", work, more as object);
  },

  /** Keeps a schedule whose first run goes on only when its lease is over. */
  async keepSlowly({ cron, lease }) {
    const work = async (fire: any): Promise<void> => {
      if (outcome !== "none") return;
      outcome = "running";
      // The schedule itself has asked for the next fire by then, and rests.
      await sleep(100);
      say("begun");
      while (fire.remaining() > 0) await sleep(5);
      const facts = `${fire.fireMs}, ${fire.token}`;
      const text = `INSERT INTO effects (fire_ms, token) VALUES (${facts})`;
      outcome = await transact(text, (tx) => fire.complete(tx)).then(() => "completed", named);
    };
    // Only another process runs it again.
    const more = { ...options, lease, crashed: "leave", worker: "frozen" };
    kept = await schedule(url, "job", cron, work, more as object);
  },

  /** What became of that run. */
  async outcome() {
    return { outcome };
  },

  /** Begins no further run, and waits for its own. */
  async leave() {
    await kept.close();
  },

  /** Takes a job, and arms a fence with its token. */
  async take({ lease }) {
    q = await queue(url, options);
    box = await outbox(url, options);
    job = await q.take({ lease });
    const fence: any = db === undefined ? postgresFence(pool) : sqliteFence(db);
    // As it comes over a wire: without its signal only the mark can refuse it.
    const { name, token, holder, storeId } = job as TokenBearer;
    handle = await fence.arm({ name, token, holder, storeId }, "account");
    return { token };
  },

  /** As a worker that does not know that it was frozen: writes, mails and completes. */
  async finish({ mail }) {
    const written = await handle
      .write((tx: any) => {
        const text = "INSERT INTO account (entry) VALUES ('late')";
        return db === undefined ? tx.query(text) : void tx.exec(text);
      })
      .then(() => "written", named);
    const message = { key: "mail", topic: "mail", payload: mail };
    const completed = await transact(
      "INSERT INTO account (entry) VALUES ('with completion')",
      (tx) => box.write(tx, message),
      (tx) => job.complete(tx),
    ).then(() => "completed", named);
    return { written, completed, left: job.remaining() };
  },
});
