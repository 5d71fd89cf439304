/**
 * Free locks taken and given back, one after the other, beside two raw updates of a row by its
 * primary key, each a transaction of its own.
 *
 * Each subject has a process of its own and works while the others rest. CPU times say what a
 * loaded machine hides: how much work it is.
 */
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { runRole, say, startChild, told } from "../children.mjs";
import { inTurns, median, printTable, ratio } from "../figures.mjs";
import { withServer } from "./servers.mjs";
import { subjects, tables } from "./subjects.mjs";

/** The raw updates through the same client library. */
const baseOf = (name) =>
  name.startsWith("raw postgres") || name === "Tenure, postgres"
    ? "raw postgres, prepared"
    : name.includes("mysql2")
      ? "raw mysql2, prepared"
      : "raw pg, prepared";

/** CPU time of a server's processes so far, milliseconds. Linux tells; elsewhere NaN. */
function cpuOf(pid) {
  if (process.platform !== "linux") return Number.NaN;
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ");
  const nsOf = (one) =>
    readdirSync(`/proc/${one}/task`)
      .map((thread) => readFileSync(`/proc/${one}/task/${thread}/schedstat`, "utf8").split(" ")[0])
      .reduce((sum, ns) => sum + Number(ns), 0);
  let ns = 0;
  for (const one of [pid, ...children.filter(Boolean)]) {
    try {
      ns += nsOf(one);
    } catch (error) {
      // A process or thread of the server that has just ended.
      if (!["ENOENT", "ESRCH"].includes(error.code)) throw error;
    }
  }
  return ns / 1e6;
}

async function compare(kind, isFlushed, rounds, times) {
  await withServer(kind, isFlushed, async (url, server) => {
    await tables[kind](server);
    const children = new Map();
    const cpu = new Map();
    const serverCpu = new Map();
    const turns = {};
    for (const name of Object.keys(subjects[kind])) {
      const child = startChild(fileURLToPath(import.meta.url), "subject", url, kind, name);
      children.set(name, child);
      cpu.set(name, []);
      serverCpu.set(name, []);
      await child.next();
      turns[name] = async () => {
        const before = cpuOf(server.pid);
        child.tell(times);
        const { wallMs, cpuMs } = await child.next();
        serverCpu.get(name).push((cpuOf(server.pid) - before) / times);
        cpu.get(name).push(cpuMs);
        return wallMs;
      };
    }
    const took = await inTurns(turns, rounds);
    for (const child of children.values()) child.kill();
    const us = (values) => (median(values) * 1_000).toFixed(0);
    const flushed = isFlushed ? "each commit flushed" : "nothing flushed";
    printTable(
      [`${kind}, ${flushed}`, "µs per pair", "× raw", "CPU of the client, µs", "of the server"],
      [...took].map(([name, values]) => [
        name,
        us(values),
        ratio(values, took.get(baseOf(name))).toFixed(2),
        us(cpu.get(name).slice(-rounds)),
        us(serverCpu.get(name).slice(-rounds)),
      ]),
    );
  });
}

export async function pairs(isQuick) {
  const [rounds, times] = isQuick ? [12, 30] : [60, 60];
  console.log(`One pair at a time: ${rounds} rounds of ${times} pairs.\n`);
  for (const kind of Object.keys(subjects)) {
    for (const isFlushed of [true, false]) await compare(kind, isFlushed, rounds, times);
  }
}

async function subject(url, kind, name) {
  const lock = await subjects[kind][name](url);
  say({});
  for await (const times of told()) {
    const start = performance.now();
    const before = process.cpuUsage();
    for (let i = 0; i < times; i++) await lock.pair("bench:pair");
    const { user, system } = process.cpuUsage(before);
    const wallMs = (performance.now() - start) / times;
    say({ wallMs, cpuMs: (user + system) / 1_000 / times });
  }
}

await runRole(import.meta.url, { subject });
