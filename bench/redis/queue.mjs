/**
 * What waiting and handing over cost the store.
 *
 * Clients in a process of their own queue behind one holder. First nothing happens for a while:
 * whatever the server runs then is the price of waiting. Then the holder leaves, and each in turn
 * has its section and does not come back.
 */
import { fileURLToPath } from "node:url";
import { runRole, say, startChild, told } from "../children.mjs";
import { breath, nowMs, printTable, sleep } from "../figures.mjs";
import { ours, peers } from "./subjects.mjs";

const CLIENTS = 10;
const SECTION_MS = 5;
const LOCK = "bench:queue";
const MOST_SHOWN = 8;

/** Calls by command since the counters were reset, those inside of scripts too. */
async function commands(client) {
  const text = await client.info("commandstats");
  const calls = [...text.matchAll(/^cmdstat_([^:]+):calls=(\d+)/gm)];
  // Our own questions, and signs of life of the connections.
  const other = /^(info|config|ping|client|hello|select)/;
  return new Map(calls.filter(([, name]) => !other.test(name)).map(([, name, n]) => [name, +n]));
}

const sum = (counts) => [...counts.values()].reduce((total, n) => total + n, 0);

/** One subject in a process of its own: starved waiters are ended with it. */
async function measure(server, name, waiters, forMs) {
  await server.client.flushall();
  const script = fileURLToPath(import.meta.url);
  const child = startChild(script, "wait", String(server.port), name, String(waiters));
  await child.next();
  await server.client.config("RESETSTAT");
  await sleep(forMs);
  const idle = await commands(server.client);
  await server.client.config("RESETSTAT");
  child.tell("go");
  const { turns, tookMs } = await child.next();
  const busy = await commands(server.client);
  child.kill();
  await child.end();
  const perTurn = [...busy]
    .map(([command, n]) => [command, (n - ((idle.get(command) ?? 0) * tookMs) / forMs) / turns])
    .sort(([, a], [, b]) => b - a);
  return { turns, idle: (sum(idle) * 1_000) / forMs, busy: sum(busy) / turns, perTurn };
}

/** The waiters. */
async function wait(port, name, waiters) {
  const makers = { ...ours, ...peers };
  const clients = await Promise.all(
    Array.from({ length: CLIENTS }, () => makers[name](Number(port))),
  );
  const open = await clients[0].enter(LOCK);
  const wanted = Math.ceil(waiters / 4);
  let turns = 0;
  let startMs = 0;
  for (let i = 0; i < waiters; i++) {
    void (async () => {
      const leave = await clients[i % CLIENTS].enter(LOCK);
      const untilMs = nowMs() + SECTION_MS;
      while (nowMs() < untilMs) await breath();
      await leave();
      turns += 1;
      if (turns === wanted) say({ turns, tookMs: nowMs() - startMs });
    })();
    if (i % 50 === 49) await sleep(10);
  }
  await sleep(1_000);
  say({});
  await told().next();
  startMs = nowMs();
  await open();
}

export async function queue(server, isQuick) {
  const forMs = isQuick ? 1_500 : 4_000;
  const sizes = isQuick ? [500] : [100, 500, 1_000];
  console.log(
    `Commands that the server runs, inside of scripts too, for ${CLIENTS} clients. Sections of ` +
      `${SECTION_MS} ms; a quarter of the waiters has its turn. The last column leaves out what ` +
      "waiting alone had cost.\n",
  );
  const rows = [];
  for (const name of [...Object.keys(ours), ...Object.keys(peers)]) {
    for (const waiters of sizes) {
      const { idle, busy, perTurn } = await measure(server, name, waiters, forMs);
      const most = perTurn
        .slice(0, MOST_SHOWN)
        .filter(([, n]) => n >= 0.05)
        .map(([command, n]) => `${command} ${n.toFixed(1)}`);
      const extra = perTurn.reduce((total, [, n]) => total + n, 0);
      const figures = [idle.toFixed(0), busy.toFixed(1), extra.toFixed(1), most.join(", ")];
      rows.push([name, waiters, ...figures]);
    }
  }
  printTable(
    ["", "waiters", "per second, waiting", "per hand-over, all", "beyond waiting", "which"],
    rows,
  );
}

await runRole(import.meta.url, { wait });
