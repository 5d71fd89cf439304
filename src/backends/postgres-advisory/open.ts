import type { Backend } from "../../core/backend.js";
import { checkKnown } from "../../core/options.js";
import type { PostgresClient } from "../../drivers/postgres/client.js";
import { explainPostgres, isContention } from "../../drivers/postgres/errors.js";
import { besidePostgres, connectorFor, type PostgresLibrary } from "../../drivers/postgres/open.js";
import { prepareStore } from "../../drivers/postgres/store.js";
import { postgresAdvisoryBackend } from "./index.js";
import { checkSettings, type PostgresAdvisorySettings } from "./options.js";
import { lockInTransaction, type AdvisoryTransaction } from "./transaction.js";

export { schemaSql } from "./schema.js";
export type { AdvisoryTransaction } from "./transaction.js";

const OPTIONS: readonly string[] = ["schema", "migrate", "storeId", "library"];

/** Settings of {@link postgresAdvisory}. */
export interface PostgresAdvisoryOptions extends PostgresAdvisorySettings {
  /** With a URL: which client library. Default: the first of `pg` and `postgres` installed. */
  readonly library?: PostgresLibrary;
}

/**
 * A backend on session locks of the database at a URL, or where a single client is connected: a
 * `Client` of `pg`, or `postgres()` with `max: 1`. The client itself is not used: each session is a
 * connection of its own with its settings.
 *
 * @throws TypeError for a pool: its statements go to whichever session is free. `connect` refuses a
 *   pooler with a GuaranteeError.
 * @throws UnavailableError when a URL is given and no client library is installed.
 */
export async function postgresAdvisory(
  urlOrClient: string | PostgresClient,
  options: PostgresAdvisoryOptions = {},
): Promise<Backend> {
  checkKnown(options, OPTIONS);
  checkSettings(options);
  const { library, ...settings } = options;
  const connect =
    typeof urlOrClient === "string"
      ? await connectorFor(urlOrClient, library === undefined ? {} : { library })
      : besidePostgres(urlOrClient);
  return postgresAdvisoryBackend({ ...settings, connect, faults, prepare: prepareStore });
}

/**
 * Runs `work` once the caller's own transaction has the lock of a name, until that transaction
 * ends: for writes in the same database, where the transaction is the fence. Works through a
 * transaction pooler, and needs none of Tenure's tables.
 *
 * @throws GuaranteeError outside a transaction. NotAcquiredError when the transaction's
 *   `lock_timeout` has passed. What `work` throws.
 */
export function withAdvisoryXactLock<R>(
  transaction: AdvisoryTransaction,
  name: string,
  work: () => Promise<R>,
): Promise<R> {
  return lockInTransaction(transaction, name, work, faults);
}

const faults = { explain: explainPostgres, isContention };
