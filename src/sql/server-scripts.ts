/** Scripts in an open transaction on a server, and what their failures are told as. */
import { UnavailableError, type TenureError } from "../core/errors.js";
import { driveAsync, InsertNew, isBeforehand, LEFT_OUT, type Script } from "./script.js";
import type { Shortcut, SqlRows, Step } from "./script.js";
import type { Ask } from "./server-tx.js";
import type { RenderedKept } from "./kept-sql.js";
import { raw, render, sql } from "./statement.js";
import type { Rendering, SqlPiece } from "./statement.js";

/** A kind of server. */
export type ServerDialect = "postgres" | "mysql";

/** How a driver's errors are read. */
export interface ServerFaults {
  /** Whether a statement only met others that were faster: nothing happened. */
  isContention(error: unknown): boolean;
  /** Whether an INSERT found its key there already. */
  isDuplicate(error: unknown): boolean;
  explain(
    error: unknown,
    failure: { during: string; backend: string; unsent: boolean },
  ): TenureError;
}

const ON_CONFLICT = raw(" ON CONFLICT DO NOTHING RETURNING 1 AS inserted");

/** Runs scripts in transactions of one dialect. */
export class ServerScripts {
  readonly #faults: ServerFaults;
  readonly #dialect: ServerDialect;
  readonly #rendering: Rendering;

  constructor(faults: ServerFaults, dialect: ServerDialect, schema: string | undefined) {
    this.#faults = faults;
    this.#dialect = dialect;
    this.#rendering = { dialect, schema, nowMs: () => 0n };
  }

  /** Runs one script, or the rest of it. @throws as {@link uncommitted} tells. */
  async run<R>(
    during: string,
    ask: Ask,
    script: Script<R>,
    begun?: IteratorResult<Step, R>,
  ): Promise<R> {
    try {
      return await driveAsync(script, (step) => this.#execute(ask, step), begun);
    } catch (error) {
      throw this.uncommitted(error, during);
    }
  }

  /** An error of a statement before COMMIT: nothing can have happened. */
  uncommitted(error: unknown, during: string): unknown {
    // A caller's mistake, or one of our own errors already.
    if (error instanceof Error && ("family" in error || error instanceof TypeError)) return error;
    if (this.#faults.isContention(error)) return this.conflict(error, during);
    const failure = { during, backend: this.#dialect, unsent: false };
    const explained = this.#faults.explain(error, failure);
    if (explained.family !== "unknown") return explained;
    const { message } = error instanceof Error ? error : explained;
    return this.refused(`cannot ${during}: it was broken off before COMMIT (${message})`, error);
  }

  /** The error for a transaction that met another. */
  conflict(error: unknown, during: string): UnavailableError {
    const { message } = error as Error;
    return this.refused(
      `cannot ${during}: it met another transaction (${message}), and did not happen; ` +
        "roll back, and run the transaction again",
      error,
    );
  }

  /** The error for what did not happen. */
  refused(message: string, cause: unknown, retryable = true): UnavailableError {
    return new UnavailableError(message, { backend: this.#dialect, retryable, cause });
  }

  /** A shortcut's statements, outside any transaction. */
  async alone(
    ask: (statements: readonly RenderedKept[]) => Promise<{ readonly rows: SqlRows }>,
    { statements }: Shortcut,
  ): Promise<SqlRows> {
    return (await ask(statements.map((one) => one.in(this.#rendering.schema)))).rows;
  }

  async #execute(ask: Ask, step: Step): Promise<SqlRows> {
    // In a transaction already, where a key that is there would undo all of it.
    if (isBeforehand(step)) return LEFT_OUT;
    if (!(step instanceof InsertNew)) return await this.#ask(ask, step);
    const { insert } = step;
    if (this.#dialect === "postgres") return await this.#ask(ask, sql`${insert}${ON_CONFLICT}`);
    try {
      await this.#ask(ask, insert);
      return [{ inserted: 1 }];
    } catch (error) {
      // This one is the exact answer: how many rows were affected depends on the connection.
      if (this.#faults.isDuplicate(error)) return [];
      throw error;
    }
  }

  #ask(ask: Ask, statement: SqlPiece): Promise<SqlRows> {
    const { text, values } = render(statement, this.#rendering);
    return ask(text, values);
  }
}
