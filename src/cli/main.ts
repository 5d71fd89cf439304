#!/usr/bin/env node
/** The `tenure` command: finds the verb and ends with its exit code. */
import { UsageError } from "./arguments.js";
import type { Command } from "./command.js";
import { EXIT } from "./exit-codes.js";
import { exitFor, tellFailure } from "./failure.js";
import { meantOf } from "./nearest.js";
import { flushed, OutputError, print, whenUnwritten } from "./output.js";

const HELP = `Work that must be done by one process at a time.

usage: tenure VERB …

  tenure run nightly-report -- ./report.sh    run a command while holding the lease of a name
  tenure ls                                   who holds what

  run       run a command while holding a lease; it is renewed, and given back at the end
  elect     run a command where the leader is; or print who leads
  cron      run a command at the times of a cron expression, on one of all machines
  acquire   take a lease and leave it to the caller, for scripts
  renew     renew a lease that acquire took
  release   give it back
  check     whether a token still holds
  show      who holds one name
  ls        who holds what
  partitions
            who owns which partition of a group; or run a command for each owned here
  break     end somebody else's lease
  migrate   print the SQL of a store's tables
  lab       make locks fail, in a simulated world

tenure VERB --help says more. tenure --version prints the version.

The store is the one of --store URL or TENURE_STORE, else a SQLite file in your state folder, which
works for all processes of this machine that run as you.`;

const VERBS: Readonly<Record<string, () => Promise<{ readonly command: Command }>>> = {
  run: () => import("./commands/run.js"),
  elect: () => import("./commands/elect.js"),
  cron: () => import("./commands/cron.js"),
  acquire: () => import("./commands/acquire.js"),
  renew: () => import("./commands/renew.js"),
  release: () => import("./commands/release.js"),
  check: () => import("./commands/check.js"),
  show: () => import("./commands/show.js"),
  ls: () => import("./commands/ls.js"),
  partitions: () => import("./commands/partitions.js"),
  break: () => import("./commands/break.js"),
  migrate: () => import("./commands/migrate.js"),
  lab: () => import("./commands/lab.js"),
};

async function main([first, ...rest]: readonly string[]): Promise<number> {
  const [verb, args] = first === "help" ? [rest[0] ?? "--help", ["--help"]] : [first, rest];
  const flags = beforeDashes(args);
  try {
    if (verb === "--help" || verb === "-h") return help(HELP);
    if (verb === "--version" || verb === "-V") return await version();
    if (verb === undefined) throw new UsageError("a verb is missing", "see tenure --help");
    const load = Object.hasOwn(VERBS, verb) ? VERBS[verb] : undefined;
    if (load === undefined) {
      throw noVerb(verb);
    }
    const { command } = await load();
    const isOwn = command.hasVerbs !== true || args[0]?.startsWith("-") === true;
    if (isOwn && (flags.includes("--help") || flags.includes("-h"))) return help(command.help);
    return await command.run(args);
  } catch (error) {
    tellFailure(error, flags.includes("--json"));
    return exitFor(error);
  }
}

function noVerb(verb: string): UsageError {
  const verbs = Object.keys(VERBS);
  const verbFirst = "the verb comes first, its flags after it: tenure VERB …; ";
  const start = verb.startsWith("-") ? verbFirst : meantOf(verb, verbs, 1);
  const hint = `${start}verbs are ${verbs.join(" ")}; see tenure --help`;
  return new UsageError(`there is no verb ${JSON.stringify(verb)}`, hint);
}

/** What follows after -- belongs to the child. */
function beforeDashes(args: readonly string[]): readonly string[] {
  const split = args.indexOf("--");
  return split === -1 ? args : args.slice(0, split);
}

function help(text: string): number {
  print(text);
  return EXIT.ok;
}

async function version(): Promise<number> {
  const { readFileSync } = await import("node:fs");
  // As far up from the bundle as from the compiled tree.
  const manifest = readFileSync(new URL("../../package.json", import.meta.url), "utf8");
  print((JSON.parse(manifest) as { version: string }).version);
  return EXIT.ok;
}

whenUnwritten((error) => {
  // A reader that has seen enough (`tenure ls | head -1`) is no failure.
  if (error.code === "EPIPE") process.exit(EXIT.ok);
  const failure = new OutputError("the result could not be written to stdout", error);
  tellFailure(failure, beforeDashes(process.argv).includes("--json"));
  process.exit(exitFor(failure));
});

// Nobody reads what is said: the child, and the code that tells how it ended, matter more.
process.stderr.on("error", () => undefined);

const exitCode = await main(process.argv.slice(2));
await flushed();
process.exit(exitCode);
