/**
 * Scripts: what a pattern does in a transaction, written once for every store.
 *
 * A script is a generator. It yields statements, is sent their rows, and returns its answer:
 *
 *     function* look(name: string): Script<bigint | null> {
 *       const [row] = yield sql`SELECT token FROM ${own("claim")}
 *         WHERE name = ${name} ${forUpdate}`;
 *       return row === undefined ? null : bigintOf(row["token"]);
 *     }
 *
 * A runner drives it, at once on SQLite and with promises elsewhere; the script cannot tell. The
 * manner that works on all of them: lock the row, look, decide in the script, write. How many rows
 * an UPDATE changed is not told, since the stores count differently.
 *
 * A script may be run again from its beginning after a conflict with others: it must not change
 * anything but the store.
 */
import type { FilledSql } from "./kept-sql.js";
import type { Sql } from "./statement.js";

/** A row by column names; read its values with `bigintOf`, `numberOf` and `textOf`. */
export type SqlRow = Readonly<Record<string, unknown>>;

/** Rows of one statement. */
export type SqlRows = readonly SqlRow[];

/** An INSERT that does nothing where the key is there already; see {@link insertNew}. */
export class InsertNew {
  readonly insert: Sql;

  constructor(insert: Sql) {
    this.insert = insert;
  }
}

/**
 * What may do all that a script has to, in one round trip instead of five: one statement, or
 * several in one message, which are a transaction by themselves. A script begins with it, and ends
 * if the last of them has an answer. A store may leave it out, and then answers
 * {@link LEFT_OUT}, as it does where a statement met a key that is there.
 */
export class Shortcut {
  readonly statements: readonly FilledSql[];

  constructor(...statements: readonly FilledSql[]) {
    this.statements = statements;
  }
}

/**
 * One statement that does all that a script has to, whatever it answers, and needs no transaction
 * around it. A store that leaves it out, as each does in a transaction, answers {@link LEFT_OUT}.
 */
export class Alone extends Shortcut {
  readonly statement: FilledSql;

  constructor(statement: FilledSql) {
    super(statement);
    this.statement = statement;
  }
}

/** The answer to a step that was left out. */
export const LEFT_OUT: SqlRows = [];

/**
 * A read that may be all that a script has to do, outside of any transaction. On SQLite it saves
 * the file's lock; elsewhere it would cost a round trip more, and has no answer.
 */
export class Look {
  readonly statement: Sql;

  constructor(statement: Sql) {
    this.statement = statement;
  }
}

/** What a store may leave out, and then answers {@link LEFT_OUT}. */
export function isBeforehand(step: unknown): step is Shortcut | Look {
  return step instanceof Shortcut || step instanceof Look;
}

/** One statement of a script. */
export type Step = Sql | InsertNew | Shortcut | Look;

/** What a pattern does in a transaction. */
export type Script<R> = Generator<Step, R, SqlRows>;

/** How an answer comes: at once, or by a promise. */
export type When = "sqlite" | "postgres" | "mysql" | "promised";

/** An answer as it comes from a store: on SQLite, in a transaction, at once. */
export type Answered<K extends When, R> = K extends "sqlite" ? R : Promise<R>;

/**
 * Runs a script. `during` says what is being done, as it stands after "cannot". `make` is called
 * before anything is sent, so it is the place to check arguments: it checks, and returns the
 * generator.
 */
export type Run<K extends When> = <R>(during: string, make: () => Script<R>) => Answered<K, R>;

/**
 * Whether a row was inserted: true for exactly one of all that insert the same key, however many
 * do at once, and false for those that find it there. The others wait for whoever inserts.
 */
export function* insertNew(insert: Sql): Script<boolean> {
  const rows = yield new InsertNew(insert);
  return rows.length > 0;
}

/** What comes after an answer, whichever way it comes. */
export function afterwards<A, R>(answer: A | Promise<A>, next: (answer: A) => R): R | Promise<R> {
  return answer instanceof Promise ? answer.then((later: A) => next(later)) : next(answer);
}

/** Drives a script, also one that has begun, whose statements answer at once. */
export function drive<R>(
  script: Script<R>,
  execute: (step: Step) => SqlRows,
  begun: IteratorResult<Step, R> = script.next([]),
): R {
  let next = begun;
  while (next.done !== true) {
    let rows: SqlRows;
    try {
      rows = execute(next.value);
    } catch (error) {
      next = script.throw(error);
      continue;
    }
    next = script.next(rows);
  }
  return next.value;
}

/** Drives a script, also one that has begun, whose statements answer by promises. */
export async function driveAsync<R>(
  script: Script<R>,
  execute: (step: Step) => Promise<SqlRows>,
  begun: IteratorResult<Step, R> = script.next([]),
): Promise<R> {
  let next = begun;
  while (next.done !== true) {
    let rows: SqlRows;
    try {
      rows = await execute(next.value);
    } catch (error) {
      next = script.throw(error);
      continue;
    }
    next = script.next(rows);
  }
  return next.value;
}
