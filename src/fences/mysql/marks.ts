/** Marks and the audit as rows. 64-bit integers come and go as text, other texts as hex digits. */
import { UnavailableError } from "../../core/errors.js";
import type { MarkRecord } from "../decide.js";
import { pastFromJson, pastToJson } from "../record.js";
import type { SqlMarks } from "../sql-store.js";
import type { Row, SqlTransaction } from "../sql-work.js";
import { BYTES, fromHex, toHex } from "../../dialects/mysql.js";
import { NO_TOKEN, PROOF } from "./schema.js";

/** The statements of the fence in one schema; each method runs inside a transaction. */
export class Marks implements SqlMarks {
  /** The schema as SQL, with a dot; empty for the connection's own. */
  readonly schema: string;
  readonly #read: string;
  readonly #make: string;
  readonly #update: string;

  constructor(schema: string) {
    this.schema = schema;
    this.#read = `SELECT HEX(store_id) AS store_id, HEX(lock_name) AS lock_name,
      CAST(token AS CHAR) AS token, HEX(holder) AS holder, CAST(arm AS CHAR) AS arm,
      CAST(n AS CHAR) AS n, HEX(past) AS past
      FROM ${schema}tenure_fence_mark WHERE resource = ${BYTES}`;
    // An insert that meets another row would keep a lock for sharing, and two such would block each
    // other for ever; this one waits for the lock to write.
    this.#make = `INSERT INTO ${schema}tenure_fence_mark
      (resource, store_id, lock_name, token, holder, arm, n, past)
      VALUES (${BYTES}, X'', X'', ${NO_TOKEN}, X'', 0, 0, X'')
      ON DUPLICATE KEY UPDATE resource = tenure_fence_mark.resource`;
    this.#update = `UPDATE ${schema}tenure_fence_mark SET store_id = ${BYTES}, lock_name = ${BYTES},
      token = CAST(? AS SIGNED), holder = ${BYTES}, arm = CAST(? AS SIGNED), n = CAST(? AS SIGNED),
      past = ${BYTES}, writer = IF(?, ${PROOF}, NULL), connection = CONNECTION_ID(), until = NULL
      WHERE resource = ${BYTES}`;
  }

  async load(transaction: SqlTransaction, resource: string): Promise<MarkRecord | null> {
    const { rows } = await transaction.query(this.#read, [toHex(resource)]);
    return readRecord(resource, rows[0]);
  }

  async lock(
    transaction: SqlTransaction,
    resource: string,
    makes: boolean,
  ): Promise<MarkRecord | null> {
    const look = () => transaction.query(`${this.#read} FOR UPDATE`, [toHex(resource)]);
    let { rows } = await look();
    if (rows.length === 0 && makes) {
      await transaction.query(this.#make, [toHex(resource)]);
      ({ rows } = await look());
    }
    return readRecord(resource, rows[0]);
  }

  async save(
    transaction: SqlTransaction,
    resource: string,
    record: MarkRecord,
    { proves }: { readonly proves: boolean },
  ): Promise<boolean> {
    const { scope, token, holder, arm, n, past } = record;
    await transaction.query(this.#update, [
      toHex(scope.storeId), toHex(scope.name), String(token), toHex(holder), String(arm), String(n),
      toHex(JSON.stringify(pastToJson(past))), proves ? 1 : 0, toHex(resource),
    ]);
    return true;
  }

  /** Proves that this transaction may write what it likes. */
  async proveBypass(transaction: SqlTransaction): Promise<void> {
    await transaction.query(this.#make, [""]);
    await transaction.query(
      `UPDATE ${this.schema}tenure_fence_mark SET writer = ${PROOF}, connection = CONNECTION_ID(),
        until = NULL WHERE resource = ${BYTES}`,
      [""],
    );
  }

  async unprove(transaction: SqlTransaction, resource: string): Promise<void> {
    await transaction.query(
      `UPDATE ${this.schema}tenure_fence_mark SET writer = NULL, connection = NULL
        WHERE resource = ${BYTES}`,
      [toHex(resource)],
    );
  }

  async audit(
    transaction: SqlTransaction,
    event: "rebase" | "install" | "uninstall" | "bypass",
    subject: string,
    detail: string,
  ): Promise<void> {
    await transaction.query(
      `INSERT INTO ${this.schema}tenure_fence_audit (at, event, subject, detail, role)
        VALUES (UTC_TIMESTAMP(3), ?, ${BYTES}, ${BYTES}, USER())`,
      [event, toHex(subject), toHex(detail)],
    );
  }
}

/** @throws UnavailableError for a row that is no mark: never taken for none. */
function readRecord(resource: string, row: Row | undefined): MarkRecord | null {
  if (row === undefined || row["token"] === String(NO_TOKEN)) return null;
  try {
    return {
      scope: { storeId: fromHex(row["store_id"]), name: fromHex(row["lock_name"]) },
      token: BigInt(String(row["token"])),
      holder: fromHex(row["holder"]),
      arm: Number(row["arm"]),
      n: Number(row["n"]),
      past: pastFromJson(JSON.parse(fromHex(row["past"]))),
    };
  } catch (cause) {
    throw new UnavailableError(`the mark of ${JSON.stringify(resource)} is damaged`, {
      cause,
      backend: "mysql",
      retryable: false,
    });
  }
}
