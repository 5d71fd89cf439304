/** Connections through `postgres`, whose instances are pools that connect again by themselves. */
import { whenAborted } from "../../core/aborting.js";
import { OutcomeUnknownError, TenureError, UnavailableError } from "../../core/errors.js";
import type { PostgresSql } from "./client.js";
import {
  brokenBeforeCommit,
  brokenOff,
  endedInside,
  OwnConnection,
  resultOf,
  watchedTransaction,
  type PostgresBeginning,
  type PostgresConnection,
  type PostgresGuard,
  type PostgresResult,
  type PostgresRunning,
  type PostgresTransaction,
  type PostgresValue,
} from "./connection.js";
import { machineTimers } from "../../platform/clocks.js";
import { sqlState } from "./errors.js";
import { noneFreePostgres } from "./patience.js";

/** A statement under way. */
interface SqlQuery extends PromiseLike<unknown> {
  /** Set once it was written to a connection. */
  readonly state?: object | null;
  execute(): unknown;
  cancel(): unknown;
}

/** What is used of an instance beyond what callers must bring. */
interface FullSql extends Omit<PostgresSql, "unsafe"> {
  unsafe(text: string, values?: readonly unknown[], how?: { prepare: boolean }): SqlQuery;
  begin(work: (tx: FullSql) => Promise<unknown>): Promise<unknown>;
}

type MakeSql = (settings: object) => unknown;

/**
 * Connects an instance of our own that has one connection and keeps it.
 *
 * @throws UnavailableError where the library goes on trying for longer than that.
 */
export async function connectSql(
  make: MakeSql,
  settings: object,
  withinMs: number,
): Promise<PostgresConnection> {
  const own = new OwnConnection();
  const sql = make({
    ...settings,
    max: 1,
    idle_timeout: null,
    max_lifetime: null,
    fetch_types: false,
    connect_timeout: Math.ceil(withinMs / 1_000),
    onnotice: () => undefined,
    onclose: () => own.ended(),
    onnotify: (channel: string, payload: string) => own.noticed(channel, payload),
  }) as FullSql;
  const end = (timeout: number): Promise<void> => sql.end({ timeout }).catch(() => undefined);
  let pid: number | undefined;
  try {
    const first = await inTime(sql, withinMs);
    pid = (first as { state?: { pid?: number } }).state?.pid;
  } catch (error) {
    // Else it would go on trying.
    void end(0);
    throw error;
  }
  return own.use({
    query: async (text, values) => sql.unsafe(text, values),
    announcedPid: () => pid,
    close: () => end(1),
    destroy: () => void end(0),
  });
}

/**
 * The first answer. The library begins anew, and without end, where a server hangs up on its
 * greeting (seen with 3.4.9): one behind a balancer that is away, say, or where no TLS is spoken.
 */
function inTime(sql: FullSql, withinMs: number): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const timer = machineTimers.after(withinMs, () => {
      const { ssl = false } = sql.options as { readonly ssl?: unknown };
      const hint = ssl === false ? "" : "; ssl is set: does the server take TLS at this port?";
      const text = `the server did not take the connection within ${withinMs} ms${hint}`;
      reject(new UnavailableError(text, { backend: "postgres" }));
    });
    sql
      .unsafe("SELECT 1", [])
      .then(resolve, reject)
      .then(() => timer.cancel());
  });
}

/** One statement on whichever connection is free. */
export async function runSql(
  pool: PostgresSql,
  text: string,
  values: readonly PostgresValue[],
  { patience, signal, isPrepared = false }: PostgresRunning,
): Promise<PostgresResult> {
  const query = (pool as unknown as FullSql).unsafe(text, values, { prepare: isPrepared });
  query.execute();
  // It is in the library's hands one turn later. Cancelled before, it would take its place in the
  // queue all the same, and the connection that comes upon it there would never be free again.
  await Promise.resolve();
  await Promise.resolve();
  let isWithdrawn = false;
  const withdraw = (): void => {
    // Written already: somebody may only be slow.
    if (query.state !== null && query.state !== undefined) return;
    isWithdrawn = true;
    query.cancel();
  };
  const cancel = (): void => void query.cancel();
  const unlisten = whenAborted(patience, withdraw);
  if (signal?.aborted === true) withdraw();
  else signal?.addEventListener("abort", cancel, { once: true });
  try {
    return resultOf(await query);
  } catch (error) {
    throw isWithdrawn ? noneFreePostgres() : error;
  } finally {
    unlisten();
    signal?.removeEventListener("abort", cancel);
  }
}

/**
 * A transaction by the library's own means: its `reserve` never answers where types are not
 * fetched (seen with 3.4.9 and `fetch_types: false`).
 *
 * When the connection breaks, the library rejects at once, and goes on with COMMIT or ROLLBACK when
 * the work ends; written to a connection that is closed, either ends the whole process. So work
 * that ends after its transaction is not told to the library any more.
 */
export function beginSql<R>(
  pool: PostgresSql,
  work: (transaction: PostgresTransaction) => Promise<R>,
  { patience, guard }: PostgresBeginning,
): Promise<R> {
  return new Promise<R>((resolve, reject) => {
    let isOver = false;
    /** Until COMMIT is next. */
    let underWay: PostgresTransaction | undefined;
    let thrown: { readonly error: unknown } | undefined;
    const end = (settle: () => void): void => {
      isOver = true;
      patience?.removeEventListener("abort", giveUp);
      settle();
    };
    const giveUp = (): void => end(() => reject(noneFreePostgres()));
    if (patience?.aborted === true) return giveUp();
    patience?.addEventListener("abort", giveUp, { once: true });
    const begun = (pool as unknown as FullSql).begin(async (tx) => {
      patience?.removeEventListener("abort", giveUp);
      // Nobody waits for it any more: it is rolled back.
      if (isOver) throw new UnavailableError("the transaction came too late");
      const unlessOver = <V>(value: V): V | Promise<never> => (isOver ? never() : value);
      const transaction = transactionOn(tx, () => isOver);
      if (guard !== undefined) underWay = transaction;
      let isChecked = false;
      try {
        // Sent before what follows, which fails as well when it does.
        if (guard !== undefined) silently(tx.unsafe(guard.first));
        const result = await unlessOver(await work(transaction));
        if (guard === undefined) return result;
        isChecked = true;
        await unlessOver(await mustGoOn(tx, guard));
        underWay = undefined;
        if (guard.end === "COMMIT") return result;
        throw new Read(result);
      } catch (error) {
        if (isOver) await never();
        if (guard === undefined) throw error;
        if (isChecked) {
          underWay = undefined;
          if (isConnections(error)) {
            end(() => reject(brokenBeforeCommit(transaction, error)));
            // Told to the library, it would write ROLLBACK to the connection that broke.
            await never();
          }
          thrown = { error };
          throw error;
        }
        thrown = { error };
        const told = await unlessOver(await endOf(tx, guard, transaction));
        thrown = { error: told === undefined ? error : endedInside(told, error) };
        underWay = undefined;
        throw thrown.error;
      }
    });
    begun.then(
      (result) => end(() => resolve(result as R)),
      (error: unknown) =>
        end(() => {
          // ROLLBACK was not answered: it goes without saying.
          const told = thrown !== undefined && isConnections(error) ? thrown.error : error;
          if (told instanceof Read) resolve(told.result as R);
          else reject(underWay === undefined ? told : brokenIn(underWay, error, thrown));
        }),
    );
  });
}

/** What is told where the connection broke before COMMIT, and maybe before what the work threw. */
function brokenIn(
  transaction: PostgresTransaction,
  error: unknown,
  thrown: { readonly error: unknown } | undefined,
): unknown {
  if (thrown === undefined) return brokenBeforeCommit(transaction, error);
  const told = brokenOff(transaction, error);
  return told === undefined ? thrown.error : endedInside(told, thrown.error);
}

/** What only read is rolled back by throwing. */
class Read extends Error {
  readonly result: unknown;

  constructor(result: unknown) {
    super("rolled back");
    this.result = result;
  }
}

/** @throws When it is not the transaction any more that was begun. */
async function mustGoOn(tx: FullSql, guard: PostgresGuard): Promise<void> {
  try {
    await tx.unsafe(guard.last);
  } catch (error) {
    const told = guard.told(error);
    // The library keeps the connection, on which the work may have begun another.
    if (told instanceof OutcomeUnknownError) await tx.unsafe("ROLLBACK");
    throw told ?? error;
  }
}

/** Whether it is the library's word on a connection that broke, and nothing that was answered. */
function isConnections(error: unknown): boolean {
  return !(error instanceof TenureError || error instanceof Read) && sqlState(error) === undefined;
}

/** What is to be told where the work threw; undefined where nothing of it is left. */
async function endOf(
  tx: FullSql,
  guard: PostgresGuard,
  transaction: PostgresTransaction,
): Promise<OutcomeUnknownError | undefined> {
  try {
    await mustGoOn(tx, guard);
    return undefined;
  } catch (error) {
    if (error instanceof OutcomeUnknownError) return error;
    return error instanceof UnavailableError ? undefined : brokenOff(transaction, error);
  }
}

function silently(query: SqlQuery): void {
  query.execute();
  query.then(undefined, () => undefined);
}

const never = (): Promise<never> => new Promise(() => undefined);

function transactionOn(tx: FullSql, isOver: () => boolean): PostgresTransaction {
  const check = (): void => {
    if (isOver()) throw new UnavailableError("the transaction has ended", { backend: "postgres" });
  };
  return watchedTransaction(
    // What a caller sends after the end would meet the closed connection, too.
    new Proxy(tx, {
      apply(target, self, args) {
        check();
        const answer: unknown = Reflect.apply(target as unknown as () => unknown, self, args);
        return answer;
      },
      get(target, key) {
        check();
        return Reflect.get(target, key) as unknown;
      },
    }),
    async (text, values) => {
      check();
      return resultOf(await tx.unsafe(text, values));
    },
  );
}
