import { GuaranteeError } from "../../core/errors.js";
import { checkKnown } from "../../core/options.js";
import { explainSqlite, isBusy } from "../../drivers/sqlite/errors.js";
import { openBeside, openSqlite } from "../../drivers/sqlite/open.js";
import type { UserSqliteDatabase } from "../../drivers/sqlite/database.js";
import { machine } from "../../platform/machine.js";
import { platform } from "../../platform/index.js";
import { refuseNetworkFileSystem } from "./files.js";
import { checkOptions, type SqliteBackendOptions } from "./options.js";
import { sqliteBackend, type SqliteBackend } from "./index.js";

export type { SqliteProof } from "./index.js";

const OPTIONS: readonly string[] = [
  ...["storeId", "endWithProcess", "trustFileSystem", "bootId", "runtime"],
];

/** Settings of {@link sqlite}. */
export interface SqliteOptions extends Pick<SqliteBackendOptions, "storeId" | "endWithProcess"> {
  /**
   * Whether a file on a network file system is taken all the same. Right only where no other
   * machine uses it. Default false.
   */
  readonly trustFileSystem?: boolean;
  /** Id of the boot, on platforms that do not tell it. Must change with every boot. */
  readonly bootId?: string;
  /** Clock, timers and randomness. Default: the machine's. */
  readonly runtime?: SqliteBackendOptions["runtime"];
}

/**
 * A backend on the SQLite file at a path, made when missing, for all processes of this machine.
 *
 * A database object of `node:sqlite` or `better-sqlite3` may be given instead: the backend opens a
 * connection of its own to the same file with the same library, so that its transactions and the
 * caller's do not mix.
 *
 * @throws TypeError for an in-memory database.
 * @throws GuaranteeError on a network file system.
 * @throws UnavailableError when no SQLite library is installed or the file cannot be opened.
 */
export async function sqlite(
  pathOrDatabase: string | UserSqliteDatabase,
  options: SqliteOptions = {},
): Promise<SqliteBackend> {
  checkKnown(options, OPTIONS);
  checkOptions(options);
  // Asked of a path beforehand, since opening makes the file.
  const refuse = async (file: string): Promise<void> => {
    if (options.trustFileSystem !== true) await refuseNetworkFileSystem(file);
  };
  const isPath = typeof pathOrDatabase === "string";
  if (isPath) await refuse(pathOrDatabase);
  const database = isPath ? await openSqlite(pathOrDatabase) : await openBeside(pathOrDatabase);
  try {
    if (!isPath) await refuse(database.file);
    const { storeId, endWithProcess } = options;
    return sqliteBackend({
      database,
      faults: {
        isBusy,
        // An input/output error may come from the commit: nobody can say what reached the file.
        explain: (error, during) =>
          explainSqlite(error, {
            file: database.file,
            during,
            backend: "sqlite",
            committing: true,
          }),
      },
      machine: await thisMachine(options.bootId),
      runtime: options.runtime ?? platform(),
      ...(storeId === undefined ? {} : { storeId }),
      ...(endWithProcess === undefined ? {} : { endWithProcess }),
    });
  } catch (error) {
    database.close();
    throw error;
  }
}

async function thisMachine(given: string | undefined): Promise<SqliteBackendOptions["machine"]> {
  const found = await machine();
  const bootId = given ?? found.bootId;
  if (bootId !== undefined) return { ...found, bootId };
  throw new GuaranteeError(
    "this platform has no boot id, without which the times in a SQLite file cannot be told from " +
      "those before a restart; give one with the option bootId",
    { backend: "sqlite" },
  );
}
