/** Reading of the command line: strict, and every complaint names flag and value. */
import { parseArgs } from "node:util";
import type { ParseArgsConfig } from "node:util";
import { parseDuration } from "../core/duration.js";
import type { DurationLimits } from "../core/duration.js";
import { checkName } from "../core/names.js";
import { parseToken } from "../core/token.js";
import type { FencingToken } from "../core/token.js";
import { nearest } from "./nearest.js";

/** The command line is wrong: exit code 64. */
export class UsageError extends Error {
  /** What to do instead. */
  readonly hint: string | undefined;

  constructor(message: string, hint?: string) {
    super(message);
    this.name = "UsageError";
    this.hint = hint;
  }
}

/** Flags as they are declared. */
export type Flags = NonNullable<ParseArgsConfig["options"]>;

/** Flags that most verbs take. */
export const STORE_FLAGS = { store: { type: "string" }, json: { type: "boolean" } } as const;

/** Flags and operands of a verb. */
export interface Parsed<F extends Flags> {
  readonly values: ReturnType<typeof parseArgs<{ options: F }>>["values"];
  readonly operands: readonly string[];
}

/**
 * Flags and operands.
 *
 * @throws UsageError for an unknown flag, a flag without its value, a value without its flag.
 */
export function parse<F extends Flags>(args: readonly string[], options: F): Parsed<F> {
  try {
    const { values, positionals } = parseArgs({
      args: [...args],
      options,
      strict: true,
      allowPositionals: true,
    });
    return { values, operands: positionals };
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code?.startsWith("ERR_PARSE_ARGS") !== true) throw error;
    // The first sentence says what is wrong; the rest is advice to programmers.
    const [first = message] = message.split(/\.(?: |\n|$)|\n/);
    const dashed = /^Option '(?:-\w, )?(--[\w-]+).*argument is ambiguous/.exec(first)?.[1];
    const alone = /^Option '(?:-\w, )?(--[\w-]+) <value>' argument missing/.exec(first)?.[1];
    const text =
      dashed !== undefined
        ? `${dashed} needs a value, and what follows begins with -`
        : alone !== undefined
          ? `${alone} needs a value`
          : `${first.charAt(0).toLowerCase()}${first.slice(1)}`;
    throw new UsageError(text, `${meant(first, args, options)}${flagHint(options)}`);
  }
}

/** The flag that an unknown one may have been meant to be. */
function meant(complaint: string, args: readonly string[], options: Flags): string {
  // Of -ttl the parser only says that there is no -t.
  const letter = /unknown option '(-[^-])'/i.exec(complaint)?.[1];
  const end = args.indexOf("--");
  const own = end === -1 ? args : args.slice(0, end);
  const word = own.find((arg) => letter !== undefined && arg.startsWith(letter) && arg.length > 2);
  const unknown = /unknown option '--([^']+)'/i.exec(complaint)?.[1] ?? word?.slice(1);
  if (unknown === undefined) return "";
  const [like] = nearest(unknown, Object.keys(options));
  return like === undefined ? "" : `did you mean --${like}? `;
}

function flagHint(options: Flags): string {
  const flags = Object.entries(options).map(([name, { short }]) =>
    short === undefined ? `--${name}` : `-${short}, --${name}`,
  );
  return `flags are ${flags.join(" ")}; a value that begins with - is given as --flag=VALUE`;
}

/** There are more operands than the verb takes. */
export function unexpected(operand: string, usage: string): UsageError {
  return new UsageError(`unexpected argument ${JSON.stringify(operand)}`, usage);
}

/** The one operand of most verbs. */
export function nameOperand(operands: readonly string[], usage: string): string {
  const [name, extra] = operands;
  if (name === undefined) throw new UsageError("NAME is missing", usage);
  if (extra !== undefined) throw unexpected(extra, usage);
  return checkName(name, "NAME");
}

/** A duration flag in milliseconds; undefined when it was not given. */
export function duration(
  value: string | undefined,
  flag: string,
  limits?: DurationLimits,
): number | undefined {
  if (value === undefined) return undefined;
  try {
    return parseDuration(value, flag, limits);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    const got = JSON.stringify(value);
    const hint = "such as 500ms 30s 2m 1h";
    throw new UsageError(`${flag} needs a number and a unit, got ${got}`, hint);
  }
}

/** A token flag. */
export function tokenFlag(value: string | undefined, flag = "--token"): FencingToken {
  const hint = "the token that `tenure acquire` printed, or $TENURE_TOKEN of a `tenure run`";
  if (value === undefined) throw new UsageError(`${flag} is missing`, hint);
  try {
    return parseToken(value);
  } catch (error) {
    throw new UsageError(`${flag}: ${(error as Error).message}`, hint);
  }
}

/** A flag that must be given. */
export function required(value: string | undefined, flag: string, hint: string): string {
  if (value === undefined || value === "") throw new UsageError(`${flag} is missing`, hint);
  return value;
}

/** An exit code as a flag's value. */
export function exitCode(value: string | undefined, flag: string): number | undefined {
  if (value === undefined) return undefined;
  if (!/^[0-9]{1,3}$/.test(value) || Number(value) > 255) {
    throw new UsageError(`${flag} needs a number from 0 to 255, got ${JSON.stringify(value)}`);
  }
  return Number(value);
}

/** One of a few words as a flag's value. */
export function word<W extends string>(
  value: string | undefined,
  flag: string,
  words: readonly W[],
  fallback: W,
): W {
  if (value === undefined) return fallback;
  const found = words.find((one) => one === value);
  if (found !== undefined) return found;
  throw new UsageError(`${flag} is ${words.join(" or ")}, got ${JSON.stringify(value)}`);
}
