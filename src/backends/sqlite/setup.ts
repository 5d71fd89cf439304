/**
 * Opening the file: pragmas, tables, and the session of this process.
 *
 * Any number of processes may do this at once; each step is one transaction or harmless to repeat.
 */
import { GuaranteeError, UnavailableError } from "../../core/errors.js";
import type { Connection, Machine } from "./client.js";
import { CREATE_TABLES_SQL, SCHEMA, type StoreRow } from "./schema.js";
import { CEILING_STEP } from "./tokens.js";

/** Size to which the write-ahead log is cut when it starts anew, bytes. */
const WAL_BYTES = 4 * 1024 * 1024;

/**
 * Sets the pragmas of this connection. Checkpoints are made by `upkeep.ts`: SQLite's own never
 * catch up with two busy writers (300 MB of log in 4 s).
 */
export function setPragmas(db: Connection): void {
  const [row] = db.prepare("PRAGMA journal_mode = WAL").all() as { journal_mode: string }[];
  if (row?.journal_mode !== "wal") {
    throw new GuaranteeError(
      `${db.file} cannot have a write-ahead log (journal mode ${row?.journal_mode}), ` +
        "without which several processes cannot work in one file",
      { backend: "sqlite" },
    );
  }
  db.exec(
    `PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 0;
     PRAGMA journal_size_limit = ${WAL_BYTES};`,
  );
}

/** What a process brings along. */
export interface Joining {
  readonly machine: Machine;
  /** Wall clock in microseconds: what a counter starts from. */
  readonly wallUs: bigint;
  /** Id for a new store. */
  readonly storeId: string;
  /** Where this process listens. */
  readonly address: string | null;
}

/** What it finds. */
export interface Joined {
  readonly storeId: string;
  readonly session: bigint;
  /** Ceiling to publish once the log is flushed; undefined when the old one serves. */
  readonly ceiling: bigint | undefined;
  /** Whether this process made the tables. */
  readonly isNew: boolean;
}

/**
 * Makes what is missing and enters this process. Inside a write transaction.
 *
 * Times of another boot mean nothing: after a boot all leases, waiters and sessions are wiped, and
 * tokens go on above everything that may have been handed out.
 *
 * @throws UnavailableError when the tables were made by a later version.
 * @throws GuaranteeError when this process has another clock than those of the file.
 */
export function join(db: Connection, joining: Joining): Joined {
  const { machine, wallUs, address } = joining;
  const found = readRow(db);
  if (found !== undefined) checkRow(found, machine, db.file);
  const isNew = found === undefined;
  const row = found ?? create(db, joining);
  const rebooted = row.boot !== machine.bootId;
  if (rebooted) wipe(db, machine);
  const alone = rebooted || isEmpty(db);
  const now = BigInt(Math.floor(machine.nowMs()));
  const [session] = db
    .prepare("INSERT INTO tenure_session (pid, address, seen) VALUES (?, ?, ?) RETURNING id")
    .all(BigInt(machine.pid), address, now) as { id: bigint }[];
  const ceiling = isNew || alone ? reseed(db, row, rebooted || isNew, wallUs) : undefined;
  return { storeId: row.store_id, session: session!.id, ceiling, isNew };
}

function readRow(db: Connection): StoreRow | undefined {
  const has = db.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'tenure_store'").all();
  if (has.length === 0) return undefined;
  return db.prepare("SELECT * FROM tenure_store").all()[0] as StoreRow | undefined;
}

function checkRow(row: StoreRow, machine: Machine, file: string): void {
  if (row.schema !== SCHEMA) {
    throw new UnavailableError(
      `the tables of ${file} have version ${row.schema}, this version of Tenure knows ${SCHEMA}`,
      { backend: "sqlite", retryable: false },
    );
  }
  if (row.boot !== machine.bootId || row.clock === machine.clockId) return;
  throw new GuaranteeError(
    `${file} is used by processes with another monotonic clock (time namespace ${row.clock}, ` +
      `here ${machine.clockId}): leases would seem to end early; run all in one time namespace`,
    { backend: "sqlite" },
  );
}

function create(db: Connection, { machine, wallUs, storeId }: Joining): StoreRow {
  db.exec(CREATE_TABLES_SQL);
  db.prepare(
    "INSERT INTO tenure_store VALUES (1, ?, ?, ?, ?, ?, 0, 0, 0)",
  ).run(SCHEMA, storeId, machine.bootId, machine.clockId, wallUs);
  return readRow(db)!;
}

function wipe(db: Connection, machine: Machine): void {
  db.exec("DELETE FROM tenure_lease; DELETE FROM tenure_waiter; DELETE FROM tenure_session");
  db.prepare("UPDATE tenure_store SET boot = ?, clock = ?, taker = 0")
    .run(machine.bootId, machine.clockId);
}

function isEmpty(db: Connection): boolean {
  return db.prepare("SELECT 1 FROM tenure_session LIMIT 1").all().length === 0;
}

/**
 * Goes on from the present time where that is ahead, since an older copy of the file may have been
 * put in its place. After a boot all that was pending counts as handed out.
 */
function reseed(db: Connection, row: StoreRow, lost: boolean, wallUs: bigint): bigint | undefined {
  const last = lost ? max(row.next, row.ceiling, row.pending) : row.next;
  const next = max(last, wallUs);
  const enough = !lost && next + CEILING_STEP / 2n <= row.ceiling;
  const ceiling = next + CEILING_STEP;
  db.prepare("UPDATE tenure_store SET next = ?, pending = max(pending, ?), ceiling = ?")
    .run(next, ceiling, enough ? row.ceiling : 0n);
  return enough ? undefined : ceiling;
}

function max(...values: bigint[]): bigint {
  return values.reduce((a, b) => (b > a ? b : a));
}
