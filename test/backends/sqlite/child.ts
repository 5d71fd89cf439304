/** A process with a backend of its own: reads one order per line, answers one line of JSON each. */
import { createInterface } from "node:readline";
import type { Grant, Ticket } from "../../../src/core/backend.js";
import type { SqliteBackend } from "../../../src/backends/sqlite/index.js";
import { sqlite } from "../../../src/backends/sqlite/open.js";
import { connect } from "../../../src/connect.js";
import { openSqlite } from "../../../src/drivers/sqlite/open.js";
import type { Order } from "./children.js";

const call = { timeoutMs: 5_000, signal: new AbortController().signal };
let path = "";
let backend: SqliteBackend;
let grant: Grant | undefined;
let ticket: Ticket;
let toucher: NodeJS.Timeout | undefined;

async function enqueue(name: string, ttlMs: number): Promise<object> {
  const { waiting } = backend;
  if (waiting.kind !== "queue") throw new Error("no queue");
  ticket = await waiting.enqueue({ name, holder: `child-${process.pid}`, ttlMs }, call);
  const touch = (): void => void waiting.touch([ticket], call).catch(() => undefined);
  toucher = setInterval(touch, waiting.touchEveryMs);
  return {};
}

async function turn(): Promise<object> {
  const offer = await ticket.turn(call.signal);
  clearInterval(toucher);
  if (offer === "gone") return { turn: "gone" };
  const atMs = Number(process.hrtime.bigint()) / 1e6;
  const [outcome] = await backend.renew([offer], call);
  grant = offer;
  return { turn: String(offer.token), outcome, atMs };
}

/** Holds the lease `times` times and writes each token into a log, in the order of the grants. */
async function sections(name: string, times: number, log: string): Promise<object> {
  const tenure = await connect(`sqlite:${path}`);
  const db = await openSqlite(log);
  db.exec("PRAGMA busy_timeout = 5000");
  const insert = db.prepare("INSERT INTO log (token, pid) VALUES (?, ?)");
  for (let i = 0; i < times; i++) {
    await tenure.hold(name, { ttl: "10s", wait: "20s" }, async (lease) => {
      insert.run(lease.token, BigInt(process.pid));
    });
  }
  db.close();
  await tenure.close();
  return {};
}

async function stopInTransaction(file: string): Promise<object> {
  const db = await openSqlite(file);
  db.exec("BEGIN IMMEDIATE");
  return {};
}

async function obey(order: Order): Promise<object> {
  switch (order.do) {
    case "open":
      path = order.path;
      backend = await sqlite(path);
      await backend.open!(call);
      return { storeId: backend.storeId };
    case "acquire": {
      const { name, ttlMs } = order;
      const answer = await backend.acquire({ name, holder: `child-${process.pid}`, ttlMs }, call);
      if (!("grant" in answer)) return { held: answer.held.holder };
      grant = answer.grant;
      return { token: String(grant.token) };
    }
    case "enqueue":
      return enqueue(order.name, order.ttlMs);
    case "turn":
      return turn();
    case "release": {
      const [released] = await backend.release([grant!], call);
      return { released, atMs: Number(process.hrtime.bigint()) / 1e6 };
    }
    case "sections":
      return sections(order.name, order.times, order.log);
    case "stop-in-transaction":
      return stopInTransaction(order.path);
    case "close":
      await backend.close();
      return {};
  }
}

createInterface({ input: process.stdin }).on("line", (line) => {
  obey(JSON.parse(line) as Order).then(
    (answer) => process.stdout.write(`${JSON.stringify(answer)}\n`),
    (error: unknown) => process.stdout.write(`${JSON.stringify({ error: String(error) })}\n`),
  );
});
