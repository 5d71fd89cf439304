/** Makes and looks at the fence's tables, once before the first use. */
import { UnavailableError } from "../../core/errors.js";
import type { SqlTransaction } from "../sql-work.js";
import type { MysqlParts } from "./client.js";
import { quoteIdentifier } from "../../dialects/mysql.js";
import { FENCE_STATEMENTS, SCHEMA_VERSION } from "./schema.js";

const BACKEND = "mysql";
/** A statement that met other starters is repeated. */
const TRIES = 10;
const WITHIN_MS = 30_000;
const NO_PERMISSION = [1044, 1142, 1227, 1370, 1419];

/** The fence's tables in one schema. Any number of processes may make them at once. */
export class Setup {
  readonly #parts: MysqlParts;
  readonly #schema: string | undefined;
  readonly #migrate: boolean;
  #ready: Promise<void> | undefined;

  constructor(parts: MysqlParts, schema: string | undefined, migrate: boolean) {
    this.#parts = parts;
    this.#schema = schema;
    this.#migrate = migrate;
  }

  /**
   * Resolves once the tables are there; tries again at the next call after a failure.
   *
   * @throws UnavailableError for missing tables with `migrate: false`, tables of another version, a
   *   missing permission, a read-only server.
   */
  async ready(): Promise<void> {
    this.#ready ??= this.onConnection("make the fence's tables", (run) => this.#prepare(run));
    try {
      await this.#ready;
    } catch (error) {
      this.#ready = undefined;
      throw error;
    }
  }

  /** Statements that are no transaction, such as those that make triggers. */
  async onConnection<R>(
    during: string,
    step: (transaction: SqlTransaction) => Promise<R>,
  ): Promise<R> {
    const { database, faults, runtime } = this.#parts;
    const cut = new AbortController();
    const timer = runtime.timers.after(WITHIN_MS, () => cut.abort());
    const texts = { before: [], after: [], isOne: false };
    try {
      return await database.begin(step, texts, { patience: cut.signal, signal: cut.signal });
    } catch (error) {
      if (error instanceof Error && "family" in error) throw error;
      throw faults.explain(error, { during, backend: BACKEND, unsent: true });
    } finally {
      timer.cancel();
    }
  }

  async #prepare(transaction: SqlTransaction): Promise<void> {
    const found = await this.#version(transaction);
    if (found === SCHEMA_VERSION) return;
    if (found !== undefined && found > SCHEMA_VERSION) {
      throw unavailable(
        `the fence's tables have version ${found}, this release of Tenure knows ` +
          `${SCHEMA_VERSION}: use a newer release, or another schema`,
      );
    }
    if (!this.#migrate) {
      throw unavailable(
        "the fence's tables are missing or old: run what fenceSchemaStatements() lists, or leave " +
          "migrate at true",
      );
    }
    const own = (await transaction.query("SELECT DATABASE() AS name")).rows[0]?.["name"];
    if (this.#schema !== undefined) {
      const s = quoteIdentifier(this.#schema);
      await this.#patiently(transaction, `CREATE SCHEMA IF NOT EXISTS ${s}`);
      await transaction.query(`USE ${s}`);
    }
    try {
      for (const text of FENCE_STATEMENTS) await this.#patiently(transaction, text);
    } finally {
      if (this.#schema !== undefined && typeof own === "string") {
        await transaction.query(`USE ${quoteIdentifier(own)}`);
      }
    }
  }

  /** Undefined where there are no tables. */
  async #version(transaction: SqlTransaction): Promise<number | undefined> {
    const s = this.#schema === undefined ? "" : `${quoteIdentifier(this.#schema)}.`;
    try {
      const { rows } = await transaction.query(`SELECT version FROM ${s}tenure_fence_version`);
      return rows[0] === undefined ? undefined : Number(rows[0]["version"]);
    } catch (error) {
      if ([1146, 1049].includes(this.#parts.faults.errorNumber(error) ?? 0)) return undefined;
      throw error;
    }
  }

  async #patiently(transaction: SqlTransaction, text: string): Promise<void> {
    const { faults } = this.#parts;
    for (let tries = 1; ; tries++) {
      try {
        await transaction.query(text);
        return;
      } catch (error) {
        if (NO_PERMISSION.includes(faults.errorNumber(error) ?? 0)) {
          throw unavailable(
            "the fence's tables are missing, and the user has no permission to make them: have " +
              `their owner run what fenceSchemaStatements() lists (${(error as Error).message})`,
            error,
          );
        }
        if (!faults.isContention(error) || tries === TRIES) throw error;
      }
    }
  }
}

function unavailable(message: string, cause?: unknown): UnavailableError {
  const context = { backend: BACKEND, retryable: false };
  return new UnavailableError(message, cause === undefined ? context : { ...context, cause });
}
