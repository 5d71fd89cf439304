/**
 * Statements that sessions keep prepared although each stands in one message with the settings that
 * bound it: by PREPARE and EXECUTE, since the protocol's own prepared statements take no company.
 *
 * A session that does not know the statement refuses EXECUTE, and has done nothing; it is prepared
 * there with the same message then. Behind a pooler each session comes to know it, too. One that
 * has it already by then, or whose tables were made anew, is sent the statement as it is.
 */
import { createHash } from "node:crypto";
import type { PostgresLimits, PostgresResult } from "./connection.js";
import { sqlState } from "./errors.js";

/** A statement whose text is the same each time. */
export interface KeptStatement {
  /** With `$1`, `$2`, each in a cast to its type. */
  readonly text: string;
  /** A value for each of these, as SQL. */
  readonly args: readonly string[];
}

/** Runs several statements as one transaction; answers the last. */
export type RunScript = (script: string, limits: PostgresLimits) => Promise<PostgresResult>;

const UNKNOWN_STATEMENT = "26000";
/** Somebody has prepared it meanwhile; its answer would have other columns than when prepared. */
const UNFIT: readonly string[] = ["42P05", "0A000"];

/**
 * Runs a statement behind others, all of them as one transaction.
 *
 * @throws What the library threw for the last message that was sent; those before it did nothing.
 */
export async function runKept(
  run: RunScript,
  before: string,
  { text, args }: KeptStatement,
  limits: PostgresLimits,
): Promise<PostgresResult> {
  const name = nameOf(text);
  const execute = `EXECUTE ${name}${args.length === 0 ? "" : `(${args.join(", ")})`}`;
  const tries = [execute, `PREPARE ${name} AS ${text}; ${execute}`];
  for (const [n, script] of tries.entries()) {
    try {
      return await run(`${before}; ${script}`, limits);
    } catch (error) {
      const state = sqlState(error) ?? "";
      const isUnknown = n === 0 && state === UNKNOWN_STATEMENT;
      if (UNFIT.includes(state)) break;
      if (!isUnknown) throw error;
    }
  }
  const whole = text.replaceAll(/\$(\d+)/g, (_, n: string) => args[Number(n) - 1]!);
  return await run(`${before}; ${whole}`, limits);
}

const names = new Map<string, string>();

function nameOf(text: string): string {
  let name = names.get(text);
  if (name === undefined) {
    name = `tenure_kept_${createHash("sha256").update(text).digest("hex").slice(0, 32)}`;
    names.set(text, name);
  }
  return name;
}
