/**
 * Statements that sessions keep prepared although they stand in one message with the settings that
 * bound them: by PREPARE and EXECUTE, since the protocol's own prepared statements take no company.
 *
 * Where a connection is known it is remembered what was prepared on it, and the first message of a
 * kind prepares it. Elsewhere, and where the connection has another session behind it than before
 * (a pooler) or the session has forgotten (DISCARD ALL), one that does not know the statement
 * refuses EXECUTE, and has done nothing; it is prepared there with the same message then. A session
 * that has it already when it is prepared, or whose tables were made anew, is sent it as it is.
 */
import { createHash } from "node:crypto";
import type { PostgresResult } from "./connection.js";
import { sqlState } from "./errors.js";

/** A statement whose text is the same each time. */
export interface KeptStatement {
  /** With `$1`, `$2`, each in a cast to its type. */
  readonly text: string;
  /** A value for each of these, as SQL. */
  readonly args: readonly string[];
}

/** Where statements are sent. */
export interface KeptSession {
  /** Runs several statements as one transaction; answers the last. */
  readonly run: (script: string) => Promise<PostgresResult>;
  /** What was prepared on this connection; undefined where nobody knows which one is next. */
  readonly taught?: Set<string> | undefined;
}

const UNKNOWN_STATEMENT = "26000";
/** Somebody has prepared it. */
const KNOWN_ALREADY = "42P05";
/** Its answer would have other columns than when it was prepared. */
const OTHER_COLUMNS = "0A000";

/**
 * Runs statements behind others, all of them as one transaction; answers the last.
 *
 * @throws What the library threw for the last message that was sent; those before it did nothing.
 */
export async function runKept(
  { run, taught }: KeptSession,
  before: string,
  statements: readonly KeptStatement[],
): Promise<PostgresResult> {
  const group = groupOf(statements);
  const execute = statements.map(({ args }, i) =>
    args.length === 0 ? `EXECUTE ${group}_${i}` : `EXECUTE ${group}_${i}(${args.join(", ")})`,
  );
  const teach = (): string[] => statements.map(({ text }, i) => `PREPARE ${group}_${i} AS ${text}`);
  const isNew = taught !== undefined && !taught.has(group);
  // Whatever becomes of it: after most errors it is prepared.
  taught?.add(group);
  for (const isTeaching of isNew ? [true, false] : [false, true]) {
    try {
      return await run([before, ...(isTeaching ? teach() : []), ...execute].join("; "));
    } catch (error) {
      const state = sqlState(error);
      if (state === OTHER_COLUMNS) break;
      if (state !== (isTeaching ? KNOWN_ALREADY : UNKNOWN_STATEMENT)) throw error;
    }
  }
  return await run([before, ...statements.map(whole)].join("; "));
}

function whole({ text, args }: KeptStatement): string {
  return text.replaceAll(/\$(\d+)/g, (_, n: string) => args[Number(n) - 1]!);
}

const names = new Map<string, string>();

/** One name for all that a message prepares, the same in every program. */
function groupOf(statements: readonly KeptStatement[]): string {
  const text = statements.length === 1 ? statements[0]!.text : statements.map((s) => s.text).join();
  let name = names.get(text);
  if (name === undefined) {
    name = `tenure_kept_${createHash("sha256").update(text).digest("hex").slice(0, 32)}`;
    names.set(text, name);
  }
  return name;
}
