/** `tenure lab soak`: random faults for some minutes, on every model of a store. */
import { availableParallelism } from "node:os";
import { parse, unexpected, UsageError, word } from "../../arguments.js";
import type { Command } from "../../command.js";
import { EXIT } from "../../exit-codes.js";
import { stamp } from "../../machine-time.js";
import { print, printJson, readable, say } from "../../output.js";
import { fenceFlag, seedFlag } from "./plan.js";
import { soakElsewhere } from "./soak-part.js";
import { soak, sumOf, type SoakOptions, type SoakResult } from "../../../lab/soak.js";
import { STORE_MODELS, type StoreName } from "../../../lab/store-models.js";
import { mutationScore, type MutationScore } from "../../../lab/variants/index.js";

const HELP = `Runs the real code under random faults, seed after seed, on every model of a store.

usage: tenure lab soak [--minutes M] [--runs N] [--seed N] [--store MODEL]
                       [--fence none|naive|armed] [--jobs N] [--no-score] [--json]

  tenure lab soak --minutes 3
  tenure lab soak --runs 100 --seed 5000 --store sessions

flags
  --minutes M    how long; a fraction will do. Default 1
  --runs N       end after so many runs, if that is sooner
  --seed N       the first seed; default 1
  --store MODEL  poll, notify, queue, pair, sessions or observed; default each in its turn
  --fence MODE   none, naive or armed (the default)
  --jobs N       processes to share the seeds; default one for each core, 8 at most
  --no-score     do not try the known-bad locks, which takes some seconds more
  --json         print one line of JSON

exit code: 0 no invariant was broken   1 one was: tenure lab shrink SEED makes it small
64 wrong usage`;

const FLAGS = {
  minutes: { type: "string" },
  runs: { type: "string" },
  seed: { type: "string" },
  every: { type: "string" },
  store: { type: "string" },
  fence: { type: "string" },
  jobs: { type: "string" },
  "no-score": { type: "boolean" },
  json: { type: "boolean" },
} as const;

const MOST_JOBS = 8;
const MOST_MINUTES = 1_440;
/** Seeds on which each known-bad lock is tried. */
const SCORE_SEEDS = 40;
/** Violations that are printed. */
const MOST_SHOWN = 10;

async function run(args: readonly string[]): Promise<number> {
  const { values, operands } = parse(args, FLAGS);
  if (operands[0] !== undefined) throw unexpected(operands[0], "tenure lab soak [flags]");
  const minutes = minutesFlag(values.minutes ?? "1");
  const every = count(values.every, "--every") ?? 1;
  const runs = count(values.runs, "--runs") ?? Infinity;
  const cores = Math.min(MOST_JOBS, availableParallelism());
  const jobs = Math.min(runs, count(values.jobs, "--jobs") ?? cores);
  const firstSeed = seedFlag(values.seed);
  const store = values.store === undefined ? {} : { store: storeFlag(values.store) };
  const about = { fence: fenceFlag(values.fence), ...store };
  // Traces of errors that are part of the game cost a tenth of the time.
  Error.stackTraceLimit = 0;
  const from = stamp();
  const isOver = (): boolean => stamp().monotonicMs - from.monotonicMs >= minutes * 60_000;
  const part = (nth: number): SoakOptions => ({
    ...about,
    firstSeed: firstSeed + nth * every,
    every: jobs * every,
    seeds: share(runs, jobs, nth),
    until: isOver,
  });
  const others = Array.from({ length: jobs - 1 }, (_, i) =>
    soakElsewhere(argumentsOf(part(i + 1), minutes)),
  );
  const parts = await Promise.all([soak(part(0)), ...others]);
  const result = sumOf(parts);
  const tookMs = stamp().monotonicMs - from.monotonicMs;
  const score = values["no-score"] === true ? undefined : await mutationScore(SCORE_SEEDS);
  if (values.json === true) printJson({ ...result, tookMs: Math.round(tookMs), score });
  else show(result, tookMs, score);
  return result.violations.length > 0 || (score?.missed.length ?? 0) > 0 ? EXIT.broken : EXIT.ok;
}

/** The same soak, as a command line. */
function argumentsOf(
  { firstSeed, every, seeds, fence, store }: SoakOptions,
  minutes: number,
): readonly string[] {
  return [
    ...["--minutes", String(minutes), "--seed", String(firstSeed), "--every", String(every)],
    ...["--fence", fence!, "--jobs", "1", "--no-score", "--json"],
    ...(seeds === Infinity ? [] : ["--runs", String(seeds)]),
    ...(store === undefined ? [] : ["--store", store]),
  ];
}

/** How many of the runs one of several takes: as even as can be, the first ones more. */
function share(runs: number, jobs: number, nth: number): number {
  return runs === Infinity ? Infinity : Math.ceil((runs - nth) / jobs);
}

function show(result: SoakResult, tookMs: number, score: MutationScore | undefined): void {
  const { runs, replays, simulatedMs, grants, faults, lostUpdates, staleRefused } = result;
  const hours = (simulatedMs / 3_600_000).toFixed(1);
  print(`${runs} runs, ${hours} hours of simulated time in ${readable(tookMs)}`);
  print(`${grants} grants, ${faults} faults, ${staleRefused} stale operations refused`);
  print(`${lostUpdates} updates lost, ${replays} runs made twice and compared`);
  if (score !== undefined) {
    const missed = score.missed.length === 0 ? "" : `; not ${score.missed.join(" ")}`;
    print(`${score.caught} of ${score.of} known-bad locks caught${missed}`);
  }
  if (result.violations.length === 0) print("no invariant was broken");
  for (const { seed, store, fence, violations } of result.violations.slice(0, MOST_SHOWN)) {
    const { invariant, text } = violations[0]!;
    print(`seed ${seed} on ${store}: ${invariant}: ${text}`);
    say(`tenure lab shrink ${seed} --store ${store} --fence ${fence} makes it small`);
  }
}

/** The model of `--store`. */
export function storeFlag(value: string): StoreName {
  const names = Object.keys(STORE_MODELS) as StoreName[];
  return word(value, "--store", names, "poll");
}

function minutesFlag(value: string): number {
  const minutes = Number(value);
  if (/^\d+(\.\d+)?$/.test(value) && minutes > 0 && minutes <= MOST_MINUTES) return minutes;
  const got = JSON.stringify(value);
  throw new UsageError(`--minutes is a number up to ${MOST_MINUTES}, got ${got}`);
}

function count(value: string | undefined, flag: string): number | undefined {
  if (value === undefined) return undefined;
  if (/^[1-9]\d{0,8}$/.test(value)) return Number(value);
  throw new UsageError(`${flag} is a whole number above 0, got ${JSON.stringify(value)}`);
}

/** The verb. */
export const command: Command = { help: HELP, run };
