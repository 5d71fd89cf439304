import { checkKnown } from "../../core/options.js";
import { explainSqlite, isBusy } from "../../drivers/sqlite/errors.js";
import type { UserSqliteDatabase } from "../../drivers/sqlite/database.js";
import { HELD_AND_LIVE_SQL, KEEPS_LEASES_SQL, STORE_ID_SQL } from "../../drivers/sqlite/lease-table.js";
import { adoptSqlite, openSqlite } from "../../drivers/sqlite/open.js";
import { FilePlace } from "../../drivers/sqlite/place.js";
import { platform } from "../../platform/index.js";
import { machine } from "../../platform/machine.js";
import type { OnStale } from "../contract.js";
import type { HeldCheck, SqliteParts } from "./connection.js";
import { createSqliteFence, type SqliteFence, type SqliteFenceOptions } from "./index.js";

export type { FencingToken, TokenBearer } from "../../core/token.js";
export { armAll, type ArmedAll } from "../arm-all.js";
export type * from "../contract.js";
export type { Mark, Scope } from "../decide.js";
export type { Changes, Row, SqliteReadTx, SqliteTx, Value } from "./connection.js";
export type { SqliteFence, SqliteFenceOptions } from "./index.js";
export type { AuditEntry, FenceAudit, InstallOptions } from "./unskippable.js";

/**
 * Fence over the rows of a SQLite file: a path, opened at the first use and closed by `close`, or a
 * database object of `better-sqlite3` or `node:sqlite`, used as it is, so that the work may also
 * use that object itself.
 *
 * The file may hold application tables and leases as well; the fence's own tables begin with
 * `tenure_fence_`.
 *
 * @throws TypeError for anything else.
 */
export function sqliteFence<S extends OnStale = "reject">(
  pathOrDatabase: string | UserSqliteDatabase,
  options: SqliteFenceOptions<S> = {},
): SqliteFence<S> {
  checkKnown(options, ["onStale", "busyMs"]);
  return createSqliteFence(sqliteParts(pathOrDatabase), options);
}

/** What the fence needs, on the real machine. */
export function sqliteParts(pathOrDatabase: string | UserSqliteDatabase): SqliteParts {
  const isPath = typeof pathOrDatabase === "string";
  const given = isPath ? undefined : adoptSqlite(pathOrDatabase);
  let file = isPath ? pathOrDatabase : (given?.file ?? "");
  const runtime = platform();
  return {
    runtime,
    ownsConnection: isPath,
    connect: async () => {
      const connection = given ?? (await openSqlite(file));
      file = connection.file;
      return connection;
    },
    isBusy,
    explain: (error, during, committing) =>
      explainSqlite(error, { file, during, committing, backend: "sqlite" }),
    heldCheck,
    // A caller may change the journal mode of a connection of theirs, and the log goes with it.
    place: ({ file: at }) => new FilePlace(at, isPath, () => runtime.clock.monotonicMs()),
  };
}

const heldCheck: HeldCheck = {
  sql: HELD_AND_LIVE_SQL,
  keepsLeasesSql: KEEPS_LEASES_SQL,
  storeIdSql: STORE_ID_SQL,
  clock: async () => {
    const here = await machine();
    return () => [here.bootId ?? "", here.clockId, BigInt(Math.ceil(here.nowMs()))];
  },
};
