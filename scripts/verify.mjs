// Everything that must hold, in one command: set-up, build, checks, all tests, other runtimes.
//   npm run verify
// The last line is `N passed, N failed` or `N passed, N failed, N skipped`.
//
// Checks that only read run first, some at a time, beside the compiler and the installs that tests
// need. All tests come one after the other: what runs beside them takes the time that servers need.
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import path from "node:path";
import { explainMissing, missingServers } from "./servers.mjs";

const root = path.resolve(import.meta.dirname, "..");
const ci = process.env.CI === "true";
const reports = path.join(root, ".verify");

/** A run of tests that takes longer hangs. All of them take 20 minutes on two cores. */
const TESTS_WITHIN_MS = 45 * 60_000;

/** Under `npm run --silent` npm would keep what went wrong to itself. */
const SPOKEN = "--loglevel=warn";

/** @typedef {{ passed: number, failed: number, skipped: number, notes: string[] }} Count */

/**
 * Runs a program to its end. `shows`: what it prints is seen at once, else in one piece at its end.
 * `withinMs`: it is killed when it takes longer.
 * @returns {Promise<{ status: number | null, error?: Error }>}
 */
async function run(program, args, { shows, env = process.env, withinMs }) {
  // In a group of its own: what it has started has to end with it.
  const isLimited = withinMs !== undefined;
  const child = spawn(program, args, {
    cwd: root,
    env,
    detached: isLimited,
    stdio: ["ignore", shows ? "inherit" : "pipe", shows ? "inherit" : "pipe"],
  });
  /** @type {Buffer[]} */
  const printed = [];
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on("data", (chunk) => printed.push(chunk));
  }
  const kill = () => child.pid !== undefined && process.kill(-child.pid, "SIGKILL");
  const limit = isLimited ? setTimeout(kill, withinMs) : undefined;
  const stop = () => {
    kill();
    process.exit(130);
  };
  if (isLimited) for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, stop);
  try {
    const [status] = await once(child, "close");
    return { status };
  } catch (error) {
    return { status: null, error: /** @type {Error} */ (error) };
  } finally {
    clearTimeout(limit);
    for (const signal of ["SIGINT", "SIGTERM"]) process.removeListener(signal, stop);
    process.stdout.write(Buffer.concat(printed));
  }
}

/** A command is one check: it passes with exit code 0. */
function command(program, ...args) {
  return async (shows) => {
    const { status, error } = await run(program, args, { shows });
    const notes = error ? [`${program}: ${error.message}`] : [];
    const ok = status === 0;
    return { passed: ok ? 1 : 0, failed: ok ? 0 : 1, skipped: 0, notes };
  };
}

/** A vitest run counts its tests, as count-reporter.mjs saw them. */
function vitest(report, args, node = [process.execPath], settings = {}) {
  return async (shows) => {
    const file = path.join(reports, `${report}.json`);
    const [program, ...before] = node;
    const tests = [...before, path.join(root, "node_modules/vitest/vitest.mjs"), "run", ...args];
    const reporters = ["--reporter=default", "--reporter=./scripts/count-reporter.mjs"];
    const env = { ...process.env, ...settings, TENURE_VERIFY_REPORT: file };
    const { status } = await run(program, [...tests, ...reporters], {
      shows,
      env,
      withinMs: TESTS_WITHIN_MS,
    });
    /** @type {Count} */
    const sum = existsSync(file)
      ? JSON.parse(readFileSync(file, "utf8"))
      : { passed: 0, failed: 0, skipped: 0, notes: [] };
    // Whatever else made vitest fail is not lost, and no test is no success.
    if (sum.failed === 0 && (status !== 0 || sum.passed === 0)) {
      sum.failed = 1;
      sum.notes.push(`FAILED vitest ended with ${status} after ${sum.passed} passed tests`);
    }
    return sum;
  };
}

/** Real servers for the tests. Missing is as for {@link unlessMissing}; the tests count, too. */
async function servers(shows) {
  // In a process of its own, so that other checks go on beside it.
  await run(process.execPath, ["scripts/servers.mjs"], { shows });
  const missing = missingServers();
  const [failed, skipped] = ci ? [missing.length, 0] : [0, missing.length];
  const verdict = ci ? "FAILED" : "skipped";
  const notes = missing.map((program) => `${verdict} ${explainMissing(program)}`);
  return { passed: missing.length === 0 ? 1 : 0, failed, skipped, notes };
}

/** A Node of another major version, from its npm package. */
function otherNode(major) {
  return ["npx", "--yes", "-p", `node@${major}`, "node"];
}

/** Missing without CI is a skip that is counted and printed; under CI it is a failure. */
function unlessMissing(major, step) {
  return async (shows) => {
    const [program, ...args] = otherNode(major);
    const probe = spawnSync(program, [...args, "--version"], { cwd: root, encoding: "utf8" });
    if (probe.status === 0 && probe.stdout.startsWith(`v${major}.`)) return step(shows);
    const note = `Node ${major} could not be had: ${(probe.stderr || "npx failed").trim()}`;
    return ci
      ? { passed: 0, failed: 1, skipped: 0, notes: [`FAILED ${note}`] }
      : { passed: 0, failed: 0, skipped: 1, notes: [`skipped ${note}`] };
  };
}

const smoke = (major) => unlessMissing(major, command(...otherNode(major), "scripts/smoke.mjs"));
/** Suites of patterns that have SQLite among their stores; those of others alone would be empty. */
const PATTERNS = [
  ...["cas.test", "claims.test", "idempotency.test", "inbox", "outbox", "queue.test"],
  ...["replaced-file", "reservations", "rows", "schedule", "sql.test"],
].map((name) => `test/patterns/${name}`);

const sqliteOn = (major) =>
  unlessMissing(
    major,
    vitest(
      `sqlite-node-${major}`,
      // The fence's tests bring a better-sqlite3 database of the user's, compiled for one Node.
      [
        ...["--project", "conformance", "--project", "backends", "--project", "patterns"],
        ...["sqlite", ...PATTERNS],
      ],
      otherNode(major),
      { TENURE_TEST_STORES: "sqlite" },
    ),
  );

/** @typedef {{ name: string, run: (shows: boolean) => Count | Promise<Count> }} Step */

/** One after the other; without packages or a build every later step would only fail again. */
const first = [{ name: "build", run: command("npm", "run", "build", "--silent") }];
/** The longest first. */
const besides = [
  { name: "servers", run: servers },
  { name: "lint", run: command("npm", "run", "check:lint", "--silent") },
  { name: "types", run: command("npm", "run", "check:types", "--silent") },
  { name: "package", run: command("npm", "run", "check:package", "--silent") },
  { name: "unused code", run: command("npm", "run", "check:unused", "--silent") },
  { name: "imports", run: command("npm", "run", "check:imports", "--silent") },
];
const runtimes = [
  { name: "smoke, this Node", run: command(process.execPath, "scripts/smoke.mjs") },
  { name: "smoke, Node 22", run: smoke(22) },
  { name: "smoke, Node 24", run: smoke(24) },
  { name: "smoke, Node 26", run: smoke(26) },
  { name: "SQLite tests, Node 24", run: sqliteOn(24) },
];
const tests = [{ name: "tests", run: vitest("tests", []) }];
/** Needs what the tests have left. */
const last = [
  { name: "matrix", run: command(process.execPath, "scripts/matrix.mjs", "--check") },
];

rmSync(reports, { recursive: true, force: true });
mkdirSync(reports, { recursive: true });

// The lock file that npm leaves in node_modules tells that an install ran to its end; what it holds
// may be of another day.
const installs = ci || !existsSync(path.join(root, "node_modules/.package-lock.json"));
const compiled = path.join(root, "node_modules/better-sqlite3/build/Release/better_sqlite3.node");
if (installs) {
  const install = command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", SPOKEN);
  first.unshift({ name: "install", run: install });
}
// Compiling takes one core for more than a minute, so that other checks run beside it.
if (installs || !existsSync(compiled)) besides.unshift({ name: "compile", run: compile });

async function compile(shows) {
  const count = await command("npm", "rebuild", SPOKEN)(shows);
  if (count.failed > 0 || existsSync(compiled)) return count;
  const notes = ["FAILED npm rebuild has not made the native part of better-sqlite3"];
  return { passed: 0, failed: 1, skipped: 0, notes };
}

/** @type {(Count & { name: string, seconds: number })[]} */
const results = [];

async function runOne({ name, run: step }, shows) {
  console.log(`\n=== ${name}`);
  const started = process.hrtime.bigint();
  const result = await step(shows);
  const seconds = Number((process.hrtime.bigint() - started) / 1_000_000n) / 1000;
  results.push({ name, seconds, ...result });
  return result;
}

/** @param {readonly Step[]} steps @returns whether the needed ones passed */
async function runAll(steps, needed = []) {
  for (const step of steps) {
    const { failed } = await runOne(step, true);
    if (failed > 0 && needed.includes(step.name)) return false;
  }
  return true;
}

/** Three at a time, since some of them wait; what each prints comes in one piece, at its end. */
async function runBesides(steps) {
  const waiting = [...steps];
  const worker = async () => {
    for (let step = waiting.shift(); step !== undefined; step = waiting.shift()) {
      await runOne(step, false);
    }
  };
  await Promise.all([worker(), worker(), worker()]);
}

if (await runAll(first, ["install", "build"])) {
  await runBesides(besides);
  for (const steps of [runtimes, tests, last]) await runAll(steps);
}

// What failed stands last: of a long log, the end is what everybody sees.
const notes = results.flatMap((result) => result.notes);
console.log("\n=== notes");
for (const note of notes.filter((text) => !text.startsWith("FAILED"))) console.log(`  ${note}`);
console.log("\n=== summary");
for (const { name, seconds, passed, failed, skipped } of results) {
  const line = `${passed} passed, ${failed} failed, ${skipped} skipped`;
  console.log(`${name.padEnd(24)} ${line} (${seconds.toFixed(1)} s)`);
}
for (const note of notes.filter((text) => text.startsWith("FAILED"))) console.log(`  ${note}`);

const total = (what) => results.reduce((sum, result) => sum + result[what], 0);
const [passed, failed, skipped] = [total("passed"), total("failed"), total("skipped")];
console.log(`\n${passed} passed, ${failed} failed${skipped > 0 ? `, ${skipped} skipped` : ""}`);
process.exitCode = failed > 0 || passed === 0 ? 1 : 0;
