/** Errors as the command ends with them. */
import { LeaseLostError, TenureError } from "../core/errors.js";
import type { CallerMistake } from "../core/errors.js";
import { RefusedError } from "./acquire.js";
import { UsageError } from "./arguments.js";
import { EXIT, signalExit } from "./exit-codes.js";
import { OutputError, say, sayJson } from "./output.js";
import { InterruptError } from "./signals.js";

/** Options of the library by the flag that gives them. */
const FLAGS: Readonly<Record<string, string>> = {
  ttl: "--ttl",
  grace: "--grace",
  wait: "--wait",
  token: "--token",
  holder: "--holder",
  reason: "--reason",
  url: "--store",
  path: "--store",
  prefix: "PREFIX",
  name: "NAME",
  schema: "--schema",
  cron: "EXPRESSION",
  timeZone: "--tz",
  late: "--late",
  lease: "--ttl",
};

const INSTALL_HINT =
  "in the project where tenure is installed; with -g where tenure was installed with -g";

/** Exit code that stands for an error. */
export function exitFor(error: unknown): number {
  if (error instanceof UsageError || isCallerMistake(error)) return EXIT.usage;
  if (error instanceof InterruptError) return signalExit(error.number);
  if (error instanceof RefusedError) return EXIT.notAcquired;
  if (error instanceof LeaseLostError) return EXIT.lost;
  if (error instanceof OutputError) return EXIT.unwritten;
  if (isMissingLibrary(error)) return EXIT.usage;
  if (isUnavailable(error)) return EXIT.unavailable;
  // What is refused beyond these is a store that cannot promise what was asked of it.
  return error instanceof TenureError ? EXIT.usage : EXIT.internal;
}

/** The store did not answer, or its answer was lost. */
export function isUnavailable(error: unknown): boolean {
  if (isMissingLibrary(error)) return false;
  return (
    error instanceof TenureError && (error.family === "unavailable" || error.family === "unknown")
  );
}

/** A package has to be installed: nothing that could be there again by itself. */
function isMissingLibrary(error: unknown): error is Error {
  return error instanceof Error && typeof (error as { install?: unknown }).install === "string";
}

function isCallerMistake(error: unknown): error is Error & CallerMistake {
  return error instanceof Error && (error as Partial<CallerMistake>).family === "caller";
}

/** Tells an error on stderr. */
export function tellFailure(error: unknown, json: boolean): void {
  const code = exitFor(error);
  const { message, hint } = describe(error, code);
  if (json) {
    const held = error instanceof RefusedError ? error.held : undefined;
    sayJson({ event: "error", exitCode: code, code: codeOf(error), message, hint, held });
    return;
  }
  say(message);
  if (hint !== undefined) say(`  ${hint}`);
}

function describe(error: unknown, code: number): { message: string; hint?: string | undefined } {
  if (error instanceof UsageError) return { message: error.message, hint: error.hint };
  if (isCallerMistake(error)) return { message: ofFlag(error) };
  if (isMissingLibrary(error)) return { message: error.message, hint: INSTALL_HINT };
  if (!(error instanceof Error)) return { message: String(error) };
  if (code === EXIT.internal) return { message: error.stack ?? error.message };
  const cause = error.cause instanceof Error ? error.cause.message : undefined;
  const toldAlready = cause === undefined || error.message.includes(cause);
  return { message: toldAlready ? error.message : `${error.message} (${cause})` };
}

/** What the library calls an option is a flag here. */
function ofFlag({ option, message, value }: Error & CallerMistake): string {
  const flag = FLAGS[option];
  if (flag === undefined || !message.startsWith(`${option} `)) return message;
  const told = `${flag}${message.slice(option.length)}`;
  if (typeof value !== "number") return told;
  // A number is a duration that had its unit as a flag, and is milliseconds to the library.
  return `${told.replace(/ \(a bare number [^)]*\)(?=, got )/, "")} ms`;
}

function codeOf(error: unknown): string | undefined {
  const { code } = error as { code?: unknown };
  return typeof code === "string" ? code : undefined;
}
