/** One connection to a Postgres server, whatever the client library. */
import type { Abortable } from "../../core/aborting.js";
import { OutcomeUnknownError, UnavailableError, type TenureError } from "../../core/errors.js";

/**
 * What is bound to a parameter. 64-bit integers travel as text, both ways: a statement casts
 * (`$1::bigint`, `token::text`), so that no parser in between makes a double of them.
 */
export type PostgresValue = string | number | boolean | null;

/** A row by column names; values are what the client library makes of them. */
export type PostgresRow = Readonly<Record<string, unknown>>;

/** What a statement answered. */
export interface PostgresResult {
  readonly rows: readonly PostgresRow[];
  /** The server's word for what it did; `ROLLBACK` where a COMMIT did not commit. */
  readonly command: string;
}

/** A connection of our own that nothing else uses. Statements run one after the other. */
export interface PostgresConnection {
  /** Rejects with what the library threw; see `explainPostgres`. Once ended, with a certain no. */
  query(text: string, values?: readonly PostgresValue[]): Promise<PostgresResult>;
  /** Several statements without values, as one transaction unless the text says otherwise. */
  script(text: string): Promise<void>;
  readonly isOpen: boolean;
  /**
   * Process id that was announced when connecting: another one than `pg_backend_pid()` where a
   * pooler stands between.
   */
  readonly announcedPid: number | undefined;
  /** Told of each notification; one hearer. */
  onNotice: ((channel: string, payload: string) => void) | undefined;
  /** Told once when the connection has ended, by whichever side. */
  onEnd: (() => void) | undefined;
  /** Ends it in good order. */
  close(): Promise<void>;
  /** Ends it at once, and with it what is under way. */
  destroy(): void;
}

/** When to give up a statement. */
export interface PostgresLimits {
  /** Aborted when no connection was free for too long: nothing was sent then. */
  readonly patience?: Abortable;
  /** Aborted when nobody waits for the answer any more: what runs is cancelled, or cut off. */
  readonly signal?: Abortable;
}

/** What is said around a transaction, so that no other than the one that was begun is committed. */
export interface PostgresGuard {
  /** First in it. */
  readonly first: string;
  /** Last in it: fails where it is another transaction by then, or none. */
  readonly last: string;
  /** What ends it: what only reads has nothing to commit. */
  readonly end: "COMMIT" | "ROLLBACK";
  /** What the failure of `last` says; undefined for other errors. */
  told(error: unknown): TenureError | undefined;
}

/** How a transaction is begun and ended. */
export interface PostgresBeginning extends PostgresLimits {
  readonly guard?: PostgresGuard;
}

/** How one statement is run. */
export interface PostgresRunning extends PostgresLimits {
  /**
   * Whether a session may keep the statement prepared, for one that comes again and again. Not
   * behind a pooler, where the next session does not know it. Default false.
   */
  readonly isPrepared?: boolean;
}

/** A transaction under way. */
export interface PostgresTransaction {
  /** The library's own object, on the connection of the transaction. */
  readonly native: unknown;
  query(text: string, values?: readonly PostgresValue[]): Promise<PostgresResult>;
  /** Whether a part of it may be committed, so that cutting it off need not undo all. */
  readonly isInDoubt?: boolean;
}

/** What the two libraries do differently. */
export interface RawConnection {
  query(text: string, values: readonly PostgresValue[] | undefined): Promise<unknown>;
  announcedPid(): number | undefined;
  close(): Promise<void>;
  destroy(): void;
}

/** What a library tells of a connection. */
export interface ConnectionEvents {
  ended(): void;
  noticed(channel: string, payload: string): void;
}

/** A connection over what a library offers: in turn, and never again once it has ended. */
export class OwnConnection implements PostgresConnection, ConnectionEvents {
  onNotice: ((channel: string, payload: string) => void) | undefined;
  onEnd: (() => void) | undefined;
  #raw: RawConnection | undefined;
  #isOpen = true;
  #turn: Promise<unknown> = Promise.resolve();

  /** Called once, when the library has connected. */
  use(raw: RawConnection): this {
    this.#raw = raw;
    return this;
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  get announcedPid(): number | undefined {
    return this.#raw!.announcedPid();
  }

  query(text: string, values?: readonly PostgresValue[]): Promise<PostgresResult> {
    const turn = this.#turn.then(async () => {
      // `postgres` would connect anew, to a session that knows nothing of the first.
      if (!this.#isOpen) throw new UnavailableError("the connection to Postgres has ended");
      return resultOf(await this.#raw!.query(text, values));
    });
    this.#turn = turn.catch(() => undefined);
    return turn;
  }

  async script(text: string): Promise<void> {
    await this.query(text);
  }

  async close(): Promise<void> {
    await this.#turn;
    this.ended();
    await this.#raw!.close();
  }

  destroy(): void {
    this.ended();
    this.#raw!.destroy();
  }

  ended(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.onEnd?.();
  }

  noticed(channel: string, payload: string): void {
    this.onNotice?.(channel, payload);
  }
}

/** What either library answered; of several statements the last. */
export function resultOf(answer: unknown): PostgresResult {
  const last: unknown = isSeveral(answer) ? answer.at(-1) : answer;
  const { rows, command } = last as { rows?: readonly PostgresRow[]; command?: unknown };
  return {
    rows: rows ?? (last as readonly PostgresRow[]),
    command: typeof command === "string" ? command : "",
  };
}

/** A result of `postgres` is an array itself, with its command beside the rows. */
function isSeveral(answer: unknown): answer is readonly unknown[] {
  return Array.isArray(answer) && !("command" in answer);
}

/**
 * A transaction that is in doubt once somebody has the library's own object, on which COMMIT can be
 * said unseen.
 */
export function watchedTransaction(
  native: unknown,
  query: PostgresTransaction["query"],
): PostgresTransaction {
  let isInDoubt = false;
  return {
    get native() {
      isInDoubt = true;
      return native;
    },
    get isInDoubt() {
      return isInDoubt;
    },
    query,
  };
}

/**
 * What is told where nobody can look any more whether it is the transaction that was begun;
 * undefined where all of it is undone.
 */
export function brokenOff(
  { isInDoubt }: PostgresTransaction,
  error: unknown,
): OutcomeUnknownError | undefined {
  if (isInDoubt !== true) return undefined;
  const why = error instanceof Error ? error.message : String(error);
  return new OutcomeUnknownError(
    `the transaction was broken off inside the work: ${why}; a part of it may be committed`,
    { backend: "postgres", cause: error },
  );
}

/** What is told where the connection broke before COMMIT was sent, and nobody has said so yet. */
export function brokenBeforeCommit(
  transaction: PostgresTransaction,
  error: unknown,
): OutcomeUnknownError | UnavailableError {
  const why = error instanceof Error ? error.message : String(error);
  const undone = (): UnavailableError =>
    new UnavailableError(`the transaction was broken off before COMMIT: ${why}`, {
      backend: "postgres",
      cause: error,
    });
  return brokenOff(transaction, error) ?? undone();
}

/** What is told where the work threw, which says that nothing of it is left. */
export function endedInside({ message }: TenureError, cause: unknown): OutcomeUnknownError {
  return new OutcomeUnknownError(message, { backend: "postgres", cause });
}
