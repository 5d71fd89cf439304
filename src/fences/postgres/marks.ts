/** Marks and the audit as rows. 64-bit integers come and go as text. */
import { UnavailableError } from "../../core/errors.js";
import type { MarkRecord } from "../decide.js";
import { pastFromJson, pastToJson } from "../record.js";
import type { SqlMarks } from "../sql-store.js";
import type { Row, SqlTransaction } from "../sql-work.js";
import { quoteIdentifier } from "../../dialects/postgres.js";

/** The statements of the fence in one schema; each method is one, inside a transaction. */
export class Marks implements SqlMarks {
  /** The schema as SQL. */
  readonly schema: string;
  readonly #read: string;
  readonly #insert: string;
  readonly #update: string;

  constructor(schema: string) {
    const s = quoteIdentifier(schema);
    this.schema = s;
    this.#read = `SELECT store_id, lock, token::text AS token, holder, arm::text AS arm,
      n::text AS n, past FROM ${s}.fence_mark WHERE resource = $1`;
    const values = "$2, $3, $4::bigint, $5, $6::bigint, $7::bigint, $8";
    const proof = `CASE WHEN $9::boolean THEN pg_current_xact_id() END,
      CASE WHEN $9::boolean THEN now() END`;
    const columns = "store_id, lock, token, holder, arm, n, past, writer, written";
    this.#insert = `INSERT INTO ${s}.fence_mark (resource, ${columns})
      VALUES ($1, ${values}, ${proof}) ON CONFLICT (resource) DO NOTHING RETURNING 1`;
    this.#update = `UPDATE ${s}.fence_mark SET (${columns}) = ROW(${values}, ${proof})
      WHERE resource = $1`;
  }

  /** The mark as this transaction sees it. */
  async load(transaction: SqlTransaction, resource: string): Promise<MarkRecord | null> {
    const { rows } = await transaction.query(this.#read, [resource]);
    return readRecord(resource, rows[0]);
  }

  /** Waits for whoever is writing under the mark, and keeps others out until the end. */
  async lock(transaction: SqlTransaction, resource: string): Promise<MarkRecord | null> {
    const { rows } = await transaction.query(`${this.#read} FOR UPDATE`, [resource]);
    return readRecord(resource, rows[0]);
  }

  /**
   * Answers false when a mark was to be made and somebody else was faster; it can be locked then.
   * `proves`: whether the transaction may write the tables fenced by this resource.
   */
  async save(
    transaction: SqlTransaction,
    resource: string,
    record: MarkRecord,
    { isNew, proves }: { readonly isNew: boolean; readonly proves: boolean },
  ): Promise<boolean> {
    const { scope, token, holder, arm, n, past } = record;
    const { rows } = await transaction.query(isNew ? this.#insert : this.#update, [
      resource, scope.storeId, scope.name, String(token), holder, String(arm), String(n),
      JSON.stringify(pastToJson(past)), proves,
    ]);
    return !isNew || rows.length > 0;
  }

  async audit(
    transaction: SqlTransaction,
    event: "rebase" | "install" | "uninstall",
    subject: string,
    detail: string,
  ): Promise<void> {
    await transaction.query(
      `INSERT INTO ${this.schema}.fence_audit (event, subject, detail) VALUES ($1, $2, $3)`,
      [event, subject, detail],
    );
  }
}

/** @throws UnavailableError for a row that is no mark: never taken for none. */
function readRecord(resource: string, row: Row | undefined): MarkRecord | null {
  if (row === undefined) return null;
  try {
    return {
      scope: { storeId: String(row["store_id"]), name: String(row["lock"]) },
      token: BigInt(String(row["token"])),
      holder: String(row["holder"]),
      arm: Number(row["arm"]),
      n: Number(row["n"]),
      past: pastFromJson(JSON.parse(String(row["past"]))),
    };
  } catch (cause) {
    throw new UnavailableError(`the mark of ${JSON.stringify(resource)} is damaged`, {
      cause,
      backend: "postgres",
      retryable: false,
    });
  }
}
