/** Connections through `pg`. */
import { createHash } from "node:crypto";
import type { Abortable } from "../../core/aborting.js";
import { OutcomeUnknownError, TenureError, UnavailableError } from "../../core/errors.js";
import { machineTimers } from "../../platform/clocks.js";
import type { PgClient, PgPool } from "./client.js";
import {
  brokenOff,
  endedInside,
  OwnConnection,
  resultOf,
  watchedTransaction,
  type PostgresBeginning,
  type PostgresConnection,
  type PostgresLimits,
  type PostgresResult,
  type PostgresRunning,
  type PostgresTransaction,
  type PostgresValue,
} from "./connection.js";
import { explainPostgres, sqlState } from "./errors.js";
import type { KeptSession } from "./kept.js";
import { noneFreePostgres, withinPatience } from "./patience.js";

/** What is used of a client beyond what callers must bring. */
interface FullClient extends Omit<PgClient, "query"> {
  query(
    config: string | { name?: string; text: string; values?: readonly unknown[] },
  ): Promise<unknown>;
  on(event: string, listener: (...told: never[]) => void): unknown;
  off(event: string, listener: (...told: never[]) => void): unknown;
  readonly processID?: number | null;
  readonly connection?: { readonly stream?: { destroy(): void } };
  readonly connectionParameters?: object;
  readonly password?: unknown;
}

interface PoolClient extends FullClient {
  release(broken?: boolean): void;
}

type ClientClass = new (settings: object) => FullClient;

const END_WITHIN_MS = 1_000;
const nothing = (): void => undefined;

/** Connects a client of our own with the class and settings of a pool, or of a client. */
export async function connectPg(
  make: ClientClass,
  settings: object,
  withinMs: number,
): Promise<PostgresConnection> {
  const own = new OwnConnection();
  const client = new make({
    ...settings,
    connectionTimeoutMillis: withinMs,
    keepAlive: true,
  });
  // Without a listener the error of a broken connection would end the process.
  client.on("error", () => own.ended());
  client.on("end", () => own.ended());
  client.on("notification", ({ channel, payload }: { channel: string; payload?: string }) =>
    own.noticed(channel, payload ?? ""),
  );
  await client.connect();
  return own.use({
    query: (text, values) => ask(client, text, values),
    announcedPid: () => client.processID ?? undefined,
    close: () => endPg(client.end(), [client]),
    destroy: () => destroy(client),
  });
}

/** Class and settings to connect beside a pool. */
export function settingsOfPool(pool: PgPool): [ClientClass, object] {
  const { Client, options } = pool as unknown as { Client: ClientClass; options: object };
  // The password is there, but not among what a spread copies.
  return [Client, withPassword({ ...options }, options)];
}

/** Class and settings to connect beside a client. */
export function settingsOfClient(client: PgClient): [ClientClass, object] {
  const { connectionParameters = {} } = client as unknown as FullClient;
  return [client.constructor as ClientClass, withPassword({ ...connectionParameters }, client)];
}

function withPassword(settings: object, from: object): object {
  const { password } = from as { password?: unknown };
  return password === undefined || password === null ? settings : { ...settings, password };
}

/** A client taken out of a pool. */
interface Reserved {
  readonly client: PoolClient;
  /** Gives it back; a broken one is ended. A second call does nothing. */
  readonly release: (isBroken: boolean) => void;
}

async function reserve(pool: PgPool, patience: Abortable | undefined): Promise<Reserved> {
  const coming = pool.connect() as Promise<PoolClient>;
  let client: PoolClient;
  try {
    client = await withinPatience(coming, (late) => late.release(), patience);
  } catch (error) {
    throw explainPostgres(error, { during: "connect", backend: "postgres", unsent: true });
  }
  // While it is out of the pool, nobody else listens.
  client.on("error", nothing);
  let isBack = false;
  return {
    client,
    release(isBroken) {
      if (isBack) return;
      isBack = true;
      if (isBroken) destroy(client);
      else client.off("error", nothing);
      client.release(isBroken);
    },
  };
}

/** One statement on whichever connection is free. */
export async function runPg(
  pool: PgPool,
  text: string,
  values: readonly PostgresValue[],
  { isPrepared = false, ...limits }: PostgresRunning,
): Promise<PostgresResult> {
  return withClient(pool, limits, async (client) => {
    if (!isPrepared) return resultOf(await ask(client, text, values));
    try {
      return resultOf(await client.query({ name: nameOf(text), text, values }));
    } catch (error) {
      if (!NOT_PREPARED.includes(sqlState(error) ?? "")) throw error;
      return resultOf(await ask(client, text, values));
    }
  });
}

/**
 * The session does not have the statement that the library believes it has, since its owner said
 * `DISCARD ALL`; or what it prepared is something else since the tables were made anew.
 */
const NOT_PREPARED: readonly string[] = ["26000", "0A000"];

const names = new Map<string, string>();

/** The library wants one name for one text, also of another copy of this module. */
function nameOf(text: string): string {
  const known = names.get(text);
  if (known !== undefined) return known;
  const name = `tenure_${createHash("sha256").update(text).digest("hex").slice(0, 32)}`;
  names.set(text, name);
  return name;
}

/** By what is on the wire: a pool may hand out wrappers of its clients. */
const taught = new WeakMap<object, Set<string>>();

/** Scripts, on whichever connection is free. */
export async function onPgSession<R>(
  pool: PgPool,
  work: (session: KeptSession) => Promise<R>,
  limits: PostgresLimits,
): Promise<R> {
  return withClient(pool, limits, (client) => {
    const physical = client.connection ?? client;
    let known = taught.get(physical);
    if (known === undefined) taught.set(physical, (known = new Set()));
    return work({
      run: async (text) => resultOf(await ask(client, text, undefined)),
      taught: known,
    });
  });
}

/**
 * A transaction; rolled back when `work` throws.
 *
 * @throws OutcomeUnknownError with a guard, when it was ended inside the work.
 */
export async function beginPg<R>(
  pool: PgPool,
  work: (transaction: PostgresTransaction) => Promise<R>,
  { guard, ...limits }: PostgresBeginning,
): Promise<R> {
  return withClient(pool, limits, async (client) => {
    const script = (text: string): Promise<unknown> => ask(client, text, undefined);
    const rollBack = async (): Promise<void> => {
      await script("ROLLBACK").catch(() => destroy(client));
    };
    const transaction = watchedTransaction(client, async (text, values) =>
      resultOf(await ask(client, text, values)),
    );
    const toldOf = async (error: unknown): Promise<TenureError | undefined> => {
      await rollBack();
      return guard?.told(error);
    };
    let result: R;
    try {
      await script(guard === undefined ? "BEGIN" : `BEGIN; ${guard.first}`);
    } catch (error) {
      await rollBack();
      throw error;
    }
    try {
      result = await work(transaction);
    } catch (error) {
      if (guard === undefined) await rollBack();
      else {
        const told = await script(`${guard.last}; ROLLBACK`).then(
          () => undefined,
          async (end: unknown) => (await toldOf(end)) ?? brokenOff(transaction, end),
        );
        if (told instanceof OutcomeUnknownError) throw endedInside(told, error);
      }
      throw error;
    }
    const end = guard === undefined ? "COMMIT" : `${guard.last}; ${guard.end}`;
    let answer: unknown;
    try {
      answer = await script(end);
    } catch (error) {
      const told = await toldOf(error);
      // What the server answers it answers about the transaction that was begun.
      const broken = sqlState(error) === undefined ? brokenOff(transaction, error) : undefined;
      throw told ?? broken ?? error;
    }
    // Where a statement failed and the work went on, the answer is ROLLBACK, and no error.
    const { command } = resultOf(answer);
    if (command !== "ROLLBACK" || guard?.end === "ROLLBACK") return result;
    throw new UnavailableError("a statement in the transaction failed: all of it was rolled back", {
      backend: "postgres",
    });
  });
}

async function withClient<R>(
  pool: PgPool,
  { patience, signal }: PostgresLimits,
  work: (client: FullClient) => Promise<R>,
): Promise<R> {
  const { client, release } = await reserve(pool, patience);
  if (signal?.aborted === true) {
    release(false);
    throw noneFreePostgres();
  }
  const cutOff = (): void => release(true);
  signal?.addEventListener("abort", cutOff, { once: true });
  let isBroken = false;
  try {
    return await work(client);
  } catch (error) {
    // After an error of the server the connection goes on, unless it ended it.
    const { severity } = (error ?? {}) as { severity?: unknown };
    isBroken = severity === undefined ? !(error instanceof TenureError) : severity !== "ERROR";
    // Work that ended its transaction may have left the session in any state.
    isBroken ||= error instanceof OutcomeUnknownError;
    throw error;
  } finally {
    signal?.removeEventListener("abort", cutOff);
    release(isBroken);
  }
}

function ask(
  client: FullClient,
  text: string,
  values: readonly unknown[] | undefined,
): Promise<unknown> {
  return client.query(values === undefined ? text : { text, values });
}

/**
 * Waits for the end of clients that were told to end, but no longer than a server needs that lives:
 * the library waits for its side to close, and a frozen one never does.
 */
export async function endPg(ending: Promise<unknown>, clients: Iterable<object>): Promise<void> {
  await new Promise<void>((resolve) => {
    const timer = machineTimers.after(END_WITHIN_MS, resolve);
    void ending.catch(nothing).then(() => {
      timer.cancel();
      resolve();
    });
  });
  for (const client of clients) destroy(client as FullClient);
}

function destroy(client: FullClient): void {
  const stream = client.connection?.stream;
  if (stream !== undefined) stream.destroy();
  else void client.end().catch(nothing);
}
