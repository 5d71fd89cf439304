/** What command lines with a command share: a name, a lease's times, the command. */
import { duration, nameOperand, parse, UsageError } from "./arguments.js";
import type { Flags, Parsed } from "./arguments.js";
import { chooseStore } from "./store.js";
import type { StoreChoice } from "./store.js";

/** A command to run under a lease. Durations in milliseconds. */
export interface CommandPlan {
  readonly name: string;
  readonly store: StoreChoice;
  /** Undefined: the default of the store. */
  readonly ttlMs: number | undefined;
  /** Undefined: the default for the TTL. */
  readonly graceMs: number | undefined;
  readonly json: boolean;
  readonly file: string;
  readonly args: readonly string[];
}

/** Flags of a command under a lease. */
export const COMMAND_FLAGS = {
  ttl: { type: "string" },
  grace: { type: "string" },
  shell: { type: "boolean", short: "c" },
} as const;

/** Values of {@link COMMAND_FLAGS}. */
interface CommandValues {
  readonly ttl?: string | undefined;
  readonly grace?: string | undefined;
  readonly shell?: boolean | undefined;
  readonly json?: boolean | undefined;
  readonly store?: string | undefined;
}

/** What stands before `--`, and after it; `words` is undefined without a `--`. */
export function splitCommand(argv: readonly string[]): {
  readonly own: readonly string[];
  readonly words: readonly string[] | undefined;
} {
  const split = argv.indexOf("--");
  return split === -1
    ? { own: argv, words: undefined }
    : { own: argv.slice(0, split), words: argv.slice(split + 1) };
}

/**
 * Flags and operands of what stands before `--`.
 *
 * @throws UsageError. Without a `--` the flag that is wrong may be one of the command's.
 */
export function parseOwn<F extends Flags>(
  { own, words }: ReturnType<typeof splitCommand>,
  flags: F,
): Parsed<F> {
  try {
    return parse(own, flags);
  } catch (error) {
    if (words !== undefined || !(error instanceof UsageError)) throw error;
    const hint = "the command to run, with its own flags, must follow after --";
    throw new UsageError(error.message, error.hint === undefined ? hint : `${hint}; ${error.hint}`);
  }
}

/**
 * Times of a lease.
 *
 * @throws UsageError naming flag and value.
 */
function leaseTimes({ ttl, grace }: CommandValues): {
  readonly ttlMs: number | undefined;
  readonly graceMs: number | undefined;
} {
  const ttlMs = duration(ttl, "--ttl");
  const graceMs = duration(grace, "--grace", { zero: true });
  if (ttlMs !== undefined && graceMs !== undefined && graceMs >= ttlMs / 3) {
    throw new UsageError(
      `--grace must be below a third of --ttl (${ttlMs} ms), got ${JSON.stringify(grace)}`,
      "a longer grace leaves too little of the TTL for renewals",
    );
  }
  return { ttlMs, graceMs };
}

/**
 * The command of a command line.
 *
 * @throws UsageError, TypeError or RangeError naming flag and value.
 */
export function readCommand(
  verb: "run" | "elect" | "cron" | "partitions",
  values: CommandValues,
  operands: readonly string[],
  own: readonly string[],
  words: readonly string[] | undefined,
): CommandPlan {
  const usage = `tenure ${verb} NAME [flags] -- COMMAND [ARGUMENT…]`;
  if (words === undefined) throw withoutDashes(verb, operands, own, usage);
  const name = nameOperand(operands, usage);
  const [file, ...args] = words;
  if (file === undefined || file === "") throw new UsageError("no COMMAND after --", usage);
  return {
    name,
    store: chooseStore(values.store),
    ...leaseTimes(values),
    json: values.json ?? false,
    ...(values.shell === true ? { file: "sh", args: ["-c", words.join(" ")] } : { file, args }),
  };
}

/** The same command line with its dashes: all flags are kept, the command begins after the name. */
function withoutDashes(
  verb: string,
  [name, first, ...rest]: readonly string[],
  own: readonly string[],
  usage: string,
): UsageError {
  if (name === undefined) return new UsageError("NAME is missing", usage);
  const message = "the command to run must follow after --";
  const command = first === undefined ? ["COMMAND"] : [first, ...rest];
  const flags = [...own];
  const inShell = first === undefined ? -1 : own.lastIndexOf(first) + 1;
  if (inShell > 0 && own[inShell] === "-c") {
    // `sh -c …`, say: the flag is that of the command's first word.
    flags.splice(inShell, 1);
    command.splice(1, 0, "-c");
  }
  // From behind: a flag's value that looks the same stands before the operands more often.
  for (const word of [...command].reverse().concat(name)) {
    const at = flags.lastIndexOf(word);
    if (at !== -1) flags.splice(at, 1);
  }
  const line = ["tenure", verb, name, ...flags, "--", ...command].map(shellWord).join(" ");
  return new UsageError(message, line);
}

/** A word as a POSIX shell reads it. */
function shellWord(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}
