/** One connection to a MySQL or MariaDB server. */
import type { Abortable } from "../../core/aborting.js";
import { UnavailableError } from "../../core/errors.js";
import type { CoreConnection } from "./client.js";
import { errorNumber, isFatal, wasInterrupted } from "./errors.js";

/**
 * What is bound to a parameter. 64-bit integers travel as text, both ways: a statement casts
 * (`CAST(? AS SIGNED)`, `CAST(token AS CHAR)`), so that no parser in between makes a double of
 * them. A text that must arrive byte by byte travels as hexadecimal digits, whatever the
 * connection's character set.
 */
export type MysqlValue = string | number | null;

/** A row by column names; 64-bit integers beyond doubles are text. */
export type MysqlRow = Readonly<Record<string, unknown>>;

/** What a statement answered. */
export interface MysqlResult {
  /** Rows of the first result; none where there is no result. */
  readonly rows: readonly MysqlRow[];
  /**
   * Whether the session was in a transaction after each step of the statement; undefined where the
   * library does not tell, which is for rows.
   */
  readonly isInTransaction?: boolean | undefined;
}

/** A connection of our own that nothing else uses. Statements run one after the other. */
export interface MysqlConnection {
  /** Rejects with what the library threw; see `explainMysql`. Once ended, with a certain no. */
  query(text: string, values?: readonly MysqlValue[]): Promise<MysqlResult>;
  /** A statement without values, of a kind that cannot be prepared. */
  script(text: string): Promise<MysqlResult>;
  readonly isOpen: boolean;
  /** Ends it in good order. */
  close(): Promise<void>;
  /** Ends it at once, and with it what is under way. */
  destroy(): void;
}

/** When to give up a statement. */
export interface MysqlLimits {
  /** Aborted when no connection was free for too long: nothing was sent then. */
  readonly patience?: AbortSignal;
  /** Aborted when nobody waits for the answer any more: what runs is cut off. */
  readonly signal?: Abortable;
}

/** However the pool is set. */
const READING = {
  supportBigNumbers: true,
  bigNumberStrings: true,
  rowsAsArray: false,
  nestTables: false,
  typeCast: true,
} as const;

/**
 * How many statements a session keeps prepared. The library would keep 16,000 of each connection,
 * about as many as the server allows all of its sessions together.
 */
const KEPT = 100;

/** A connection of the library, and what is under way on it. */
export class Session implements MysqlConnection {
  readonly #connection: CoreConnection;
  /** Texts that are prepared, the one not used for longest first. */
  readonly #prepared = new Set<string>();
  readonly #underWay = new Set<(error: Error) => void>();
  #isOpen = true;

  constructor(connection: CoreConnection) {
    this.#connection = connection;
    connection.on("error", () => this.#ended());
    connection.on("end", () => this.#ended());
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  query(text: string, values: readonly MysqlValue[] = []): Promise<MysqlResult> {
    const statement = { ...READING, sql: text, values: [...values] };
    return this.#ask((done) =>
      this.#connection.execute(statement, (error, answer) => {
        // Not before: the library cannot end what is still to be prepared.
        const isAnswer = error === null || error === undefined || errorNumber(error) !== undefined;
        if (isAnswer && this.#isOpen) this.#keep(text);
        done(error, answer);
      }),
    );
  }

  /** Ends the preparation of what was not used for longest; that needs no answer. */
  #keep(text: string): void {
    this.#prepared.delete(text);
    this.#prepared.add(text);
    if (this.#prepared.size <= KEPT) return;
    const [first] = this.#prepared;
    this.#prepared.delete(first!);
    this.#connection.unprepare({ ...READING, sql: first!, values: [] });
  }

  script(text: string): Promise<MysqlResult> {
    return this.#ask((done) => this.#connection.query(text, done));
  }

  async close(): Promise<void> {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    await new Promise<void>((resolve) => this.#connection.end(resolve));
    // A server that does not answer would keep the socket, and with it the process.
    this.#connection.stream?.destroySoon?.();
  }

  destroy(): void {
    this.#isOpen = false;
    this.#connection.destroy();
    // The library would go on waiting for the server's side to close, and answer nobody.
    this.#connection.stream?.destroy();
    const error = new Error("the connection was given up");
    for (const fail of [...this.#underWay]) fail(error);
  }

  async #ask(send: (done: (error: Error | null, answer: unknown) => void) => unknown) {
    if (!this.#isOpen) throw new UnavailableError("the connection to MySQL has ended");
    try {
      return await new Promise<MysqlResult>((resolve, reject) => {
        this.#underWay.add(reject);
        const settle = (error: Error | null, answer: unknown): void => {
          this.#underWay.delete(reject);
          if (error === null || error === undefined) resolve(resultOf(answer));
          else reject(error);
        };
        send(settle);
      });
    } catch (error) {
      // Not every server lets a procedure clean up then: its transaction may still be open, with
      // its locks. And of a network that failed under a statement the library tells the statement
      // alone: there is no event, and the connection would be taken for a good one for ever.
      if (this.#isOpen && (wasInterrupted(error) || isFatal(error))) this.destroy();
      throw error;
    }
  }

  #ended(): void {
    this.#isOpen = false;
  }
}

/** Rows of a query, or of a procedure's first query. */
function resultOf(answer: unknown): MysqlResult {
  if (!Array.isArray(answer)) return { rows: [], isInTransaction: isInside([answer]) };
  const isSeveral = answer.some((one) => Array.isArray(one) || statusOf(one) !== undefined);
  if (!isSeveral) return { rows: answer as readonly MysqlRow[] };
  const rows = answer.find((one) => Array.isArray(one)) as readonly MysqlRow[] | undefined;
  return { rows: rows ?? [], isInTransaction: isInside(answer) };
}

/** Flag of an answer: https://dev.mysql.com/doc/dev/mysql-server/latest/mysql__com_8h.html */
const IN_TRANSACTION = 1;

function isInside(answers: readonly unknown[]): boolean | undefined {
  const known = answers.map(statusOf).filter((status) => status !== undefined);
  if (known.length === 0) return undefined;
  return known.every((status) => (status & IN_TRANSACTION) !== 0);
}

/** What the server says of its session with an answer that is no rows. */
function statusOf(answer: unknown): number | undefined {
  if (typeof answer !== "object" || answer === null || Array.isArray(answer)) return undefined;
  // A row may have a column of this name.
  const { serverStatus, affectedRows } = answer as Readonly<Record<string, unknown>>;
  if (typeof serverStatus !== "number" || typeof affectedRows !== "number") return undefined;
  return serverStatus;
}
