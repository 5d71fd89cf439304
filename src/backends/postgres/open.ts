import { checkKnown } from "../../core/options.js";
import type { PostgresClient } from "../../drivers/postgres/client.js";
import { explainPostgres, isContention, sqlState } from "../../drivers/postgres/errors.js";
import { adoptPostgres, openPostgres, type PostgresLibrary } from "../../drivers/postgres/open.js";
import { prepareStore } from "../../drivers/postgres/store.js";
import { platform } from "../../platform/index.js";
import { postgresBackend, type PostgresBackend } from "./index.js";
import { checkSettings, type PostgresBackendOptions, type PostgresSettings } from "./options.js";

export { schemaSql } from "./schema.js";
export type { PostgresBackend, PostgresProof } from "./index.js";

const OPTIONS: readonly string[] = ["schema", "migrate", "storeId", "library", "runtime"];

/** Settings of {@link postgres}. */
export interface PostgresOptions extends PostgresSettings {
  /** With a URL: which client library. Default: the first of `pg` and `postgres` installed. */
  readonly library?: PostgresLibrary;
  /** Clock, timers and randomness. Default: the machine's. */
  readonly runtime?: PostgresBackendOptions["runtime"];
}

/**
 * A backend on the Postgres database at a URL, or behind a pool: a `Pool` of `pg`, or what
 * `postgres()` made.
 *
 * Statements run in the pool; a caller's pool stays the caller's to close. Renewals have a
 * connection of their own beside it, and notices another once somebody waits.
 *
 * @throws TypeError or RangeError for wrong options, and for a single client.
 * @throws UnavailableError when a URL is given and no client library is installed.
 */
export async function postgres(
  urlOrPool: string | PostgresClient,
  options: PostgresOptions = {},
): Promise<PostgresBackend> {
  checkKnown(options, OPTIONS);
  checkSettings(options);
  const { library, runtime = platform(), ...settings } = options;
  const database =
    typeof urlOrPool === "string"
      ? await openPostgres(urlOrPool, library === undefined ? {} : { library })
      : adoptPostgres(urlOrPool);
  const faults = { explain: explainPostgres, isContention, sqlState };
  return postgresBackend({ ...settings, database, faults, runtime, prepare: prepareStore });
}
