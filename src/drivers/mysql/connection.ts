/** One connection to a MySQL or MariaDB server. */
import { UnavailableError } from "../../core/errors.js";
import type { CoreConnection } from "./client.js";
import { wasInterrupted } from "./errors.js";

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
  readonly signal?: AbortSignal;
}

/** However the pool is set. */
const READING = {
  supportBigNumbers: true,
  bigNumberStrings: true,
  rowsAsArray: false,
  nestTables: false,
  typeCast: true,
} as const;

/** A connection of the library, and what is under way on it. */
export class Session implements MysqlConnection {
  readonly #connection: CoreConnection;
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
    return this.#ask((done) => this.#connection.execute(statement, done));
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
          if (error === null || error === undefined) resolve({ rows: rowsOf(answer) });
          else reject(error);
        };
        send(settle);
      });
    } catch (error) {
      // Not every server lets a procedure clean up then: its transaction may still be open, with
      // its locks.
      if (this.#isOpen && wasInterrupted(error)) this.destroy();
      throw error;
    }
  }

  #ended(): void {
    this.#isOpen = false;
  }
}

/** Rows of a query, or of a procedure's first query. */
function rowsOf(answer: unknown): readonly MysqlRow[] {
  if (!Array.isArray(answer)) return [];
  const rows: unknown = Array.isArray(answer[0]) ? answer[0] : answer;
  return rows as readonly MysqlRow[];
}
