/**
 * Free locks taken and given back, one after the other and 200 at a time.
 *
 * Each subject has a process of its own, so that none pays for the memory and the compiled code of
 * another, and works while the others rest.
 */
import { fileURLToPath } from "node:url";
import { runRole, say, startChild, told } from "../children.mjs";
import { inTurns, median, printTable, ratio } from "../figures.mjs";
import { ours, peers, raw } from "./subjects.mjs";

const makers = { ...raw, ...ours, ...peers };
const IN_FLIGHT = 200;

/** Each library's own plain commands are what its ratio is taken to. */
const baseOf = (name) => (name.endsWith("node-redis") ? "raw node-redis" : "raw ioredis");

async function compare(port, kind, rounds, times) {
  const children = new Map();
  const cpu = new Map();
  const subjects = {};
  for (const name of Object.keys(makers)) {
    const child = startChild(fileURLToPath(import.meta.url), "subject", String(port), kind, name);
    children.set(name, child);
    cpu.set(name, []);
    await child.next();
    subjects[name] = async () => {
      child.tell(times);
      const { wallMs, cpuMs } = await child.next();
      cpu.get(name).push(cpuMs);
      return wallMs;
    };
  }
  const took = await inTurns(subjects, rounds);
  for (const child of children.values()) child.kill();
  const us = (values) => (median(values) * 1_000).toFixed(0);
  printTable(
    ["", "µs per pair", "× raw", "CPU of the client, µs"],
    [...took].map(([name, values]) => [
      name,
      us(values),
      ratio(values, took.get(baseOf(name))).toFixed(2),
      us(cpu.get(name).slice(-rounds)),
    ]),
  );
}

/** One pair at a time, always of the same name. */
export async function serial(port, isQuick) {
  const [rounds, times] = isQuick ? [18, 100] : [60, 200];
  console.log(`One pair at a time: ${rounds} rounds of ${times} pairs.\n`);
  await compare(port, "serial", rounds, times);
}

/** Pairs of 200 different names, all under way at the same time. */
export async function inFlight(port, isQuick) {
  const [rounds, times] = isQuick ? [18, 1_000] : [60, 2_000];
  console.log(`${IN_FLIGHT} pairs in flight: ${rounds} rounds of ${times} pairs.\n`);
  await compare(port, "in-flight", rounds, times);
}

const kinds = {
  async serial(lock, times) {
    for (let i = 0; i < times; i++) await lock.pair("bench:serial");
  },
  async "in-flight"(lock, times) {
    const names = Array.from({ length: IN_FLIGHT }, (_, i) => `bench:flight:${i}`);
    const run = async (name) => {
      for (let i = 0; i < times / IN_FLIGHT; i++) await lock.pair(name);
    };
    await Promise.all(names.map(run));
  },
};

async function subject(port, kind, name) {
  const lock = await makers[name](Number(port));
  say({});
  for await (const times of told()) {
    const start = performance.now();
    const before = process.cpuUsage();
    await kinds[kind](lock, times);
    const { user, system } = process.cpuUsage(before);
    const wallMs = (performance.now() - start) / times;
    say({ wallMs, cpuMs: (user + system) / 1_000 / times });
  }
}

await runRole(import.meta.url, { subject });
