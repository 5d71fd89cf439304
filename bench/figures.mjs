/** What all benchmarks share: the machine they ran on, rounds in turns, medians and tables. */
import { createRequire } from "node:module";
import { availableParallelism, cpus, loadavg, release } from "node:os";
import { parseArgs } from "node:util";

const { devDependencies } = createRequire(import.meta.url)("../package.json");

/** The value below which `share` of the values lie. */
export function quantile(values, share) {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
}

export const median = (values) => quantile(values, 0.5);

/** Milliseconds on the clock that all processes of the machine share. */
export const nowMs = () => Number(process.hrtime.bigint()) / 1e6;

export const sleep = (ms) => new Promise((resume) => setTimeout(resume, ms));

/** Lets timers and sockets have their turn. */
export const breath = () => new Promise((resume) => setImmediate(resume));

/**
 * Runs subjects in turns and answers what each took per unit, by round: noise of the machine then
 * hits all of them alike, and ratios are taken within a round. As many rounds warm up: code that
 * has just been loaded takes several times as long until V8 has compiled it.
 *
 * @param subjects by name, functions that do their work once and answer milliseconds per unit
 */
export async function inTurns(subjects, rounds, warmUp = rounds) {
  const took = new Map(Object.keys(subjects).map((name) => [name, []]));
  for (let round = -warmUp; round < rounds; round++) {
    for (const [name, run] of Object.entries(subjects)) {
      const ms = await run();
      if (round >= 0) took.get(name).push(ms);
    }
  }
  return took;
}

/** Median of what `values` are in terms of `base`, round by round. */
export const ratio = (values, base) => median(values.map((value, i) => value / base[i]));

/** Prints rows as a table in Markdown, so that it can be kept as it is. */
export function printTable(head, rows) {
  const line = (cells) => `| ${cells.join(" | ")} |`;
  console.log(line(head));
  console.log(line(head.map((_, i) => (i === 0 ? "---" : "---:"))));
  for (const row of rows) console.log(line(row));
  console.log();
}

/** Version of a peer: the project names them exactly. */
export const versionOf = (name) => devDependencies[name];

/** Prints where and with what the figures are taken. */
export function printMachine(versions) {
  const load = loadavg().map((value) => value.toFixed(1)).join(" ");
  console.log(`${cpus()[0]?.model}, ${availableParallelism()} cores, ${release()}, load ${load}`);
  console.log(`Node ${process.versions.node}, ${versions.join(", ")}\n`);
}

/**
 * Runs the parts that the command line names, or all: `[--quick] [PART…]`.
 *
 * @param parts by name, functions of `{ isQuick }`
 */
export async function runParts(parts) {
  const { values, positionals } = parseArgs({
    options: { quick: { type: "boolean", default: false } },
    allowPositionals: true,
  });
  const known = Object.keys(parts);
  const unknown = positionals.find((name) => !known.includes(name));
  if (unknown !== undefined) {
    console.error(`no part ${JSON.stringify(unknown)}; there are ${known.join(", ")}`);
    process.exit(64);
  }
  for (const name of positionals.length === 0 ? known : positionals) {
    console.log(`### ${name}\n`);
    await parts[name]({ isQuick: values.quick });
  }
}
