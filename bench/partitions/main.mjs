/**
 * Partitions: how long a change of members takes, what moves, and what a settled group asks.
 *
 * Run: npm run bench:partitions -- [--quick] [rebalance|settled]…
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { connect } from "tenure";
import { sqlite } from "tenure/backends/sqlite";
import { partitions } from "tenure/partitions";
import { nowMs, printMachine, printTable, runParts, sleep, versionOf } from "../figures.mjs";

const TTL_MS = 6_000;
/** More than is measured: a figure is taken when all is settled. */
const PATIENCE_MS = 120_000;

/** Members of one process, each with its own connection to one file. */
class Members {
  #folder = mkdtempSync(path.join(tmpdir(), "tenure-bench-"));
  #all = [];
  requests = 0;
  assigned = 0;

  constructor(count) {
    this.count = count;
  }

  async join() {
    const backend = this.#counted(await sqlite(path.join(this.#folder, "locks.db")));
    const tenure = await connect(backend);
    const group = await partitions(tenure, "bench", {
      count: this.count,
      ttl: TTL_MS,
      onChange: ({ type, partition }) => {
        if (type === "assigned") this.assigned++;
        // Nothing is worked on: what is revoked is given up at once.
        if (type === "revoked") void partition.release();
      },
    });
    this.#all.push({ tenure, group });
  }

  /** The last to come go first. */
  async leave(howMany) {
    const leaving = this.#all.splice(-howMany);
    await Promise.all(leaving.map(({ group }) => group.close()));
    return Promise.all(leaving.map(({ tenure }) => tenure.close()));
  }

  /** Member by partition, once all is shared evenly. */
  async settled() {
    const endMs = nowMs() + PATIENCE_MS;
    for (;;) {
      const owners = new Map();
      const shares = this.#all.map(({ group }) => {
        for (const { partition } of group.owned) owners.set(partition, group.member);
        return group.owned.length;
      });
      const sum = shares.reduce((a, b) => a + b, 0);
      const isEven = Math.max(...shares) - Math.min(...shares) <= 1;
      if (sum === this.count && isEven) return owners;
      if (nowMs() > endMs) throw new Error(`not settled: ${shares.join(" ")}`);
      await sleep(5);
    }
  }

  async end() {
    await this.leave(this.#all.length);
    rmSync(this.#folder, { recursive: true, force: true });
  }

  #counted(backend) {
    const count = (method) => {
      const inner = backend[method];
      return (...args) => {
        this.requests++;
        return inner.apply(backend, args);
      };
    };
    const methods = ["acquire", "renew", "release", "inspect", "list"];
    const counted = Object.fromEntries(methods.map((method) => [method, count(method)]));
    return new Proxy(backend, {
      get: (target, name) => counted[name] ?? Reflect.get(target, name, target),
    });
  }
}

/** How many partitions must move from what `before` says to even shares of these members. */
function fewest(before, after, count) {
  const ids = [...new Set(after.values())];
  const owned = ids.map((id) => [...before.values()].filter((owner) => owner === id).length);
  const even = Math.floor(count / ids.length);
  const rest = count % ids.length;
  owned.sort((a, b) => b - a);
  const kept = owned.map((own, i) => Math.min(own, even + (i < rest ? 1 : 0)));
  return count - kept.reduce((a, b) => a + b, 0);
}

async function rebalance() {
  const count = 1_000;
  console.log(`${count} partitions in a SQLite file, TTL ${TTL_MS / 1_000} s.\n`);
  const members = new Members(count);
  const rows = [];
  const change = async (title, step) => {
    const before = members.owners ?? new Map();
    members.assigned = 0;
    const fromMs = nowMs();
    await step();
    const after = await members.settled();
    const seconds = ((nowMs() - fromMs) / 1_000).toFixed(1);
    members.owners = after;
    const moved = [...after].filter(([partition, id]) => before.get(partition) !== id).length;
    const least = fewest(before, after, count);
    rows.push([title, seconds, moved, least, members.assigned]);
  };
  const joined = (howMany) => () =>
    Promise.all(Array.from({ length: howMany }, () => members.join()));
  await change("0 → 2", joined(2));
  await change("2 → 10", joined(8));
  await change("10 → 2", () => members.leave(8));
  await members.end();
  const head = ["members", "settled after, s", "moved", "must move", "assignments made"];
  printTable(head, rows);
}

async function settled({ isQuick }) {
  const forMs = isQuick ? 12_000 : 60_000;
  console.log(`Two members, TTL ${TTL_MS / 1_000} s, for ${forMs / 1_000} s.\n`);
  const rows = [];
  for (const count of [100, 1_000]) {
    const members = new Members(count);
    await members.join();
    await members.join();
    await members.settled();
    await sleep(2 * TTL_MS);
    const before = members.requests;
    const cpu = process.cpuUsage();
    const fromMs = nowMs();
    await sleep(forMs);
    const tookMs = nowMs() - fromMs;
    const { user, system } = process.cpuUsage(cpu);
    const perSecond = ((members.requests - before) * 1_000) / tookMs;
    rows.push([count, perSecond.toFixed(2), `${((user + system) / 10 / tookMs).toFixed(2)} %`]);
    await members.end();
  }
  printTable(["partitions", "requests per second", "share of one core"], rows);
}

printMachine([`better-sqlite3 ${versionOf("better-sqlite3")}`]);
await runParts({ rebalance, settled });
