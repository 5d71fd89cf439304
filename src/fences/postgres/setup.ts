/** Makes and looks at the fence's tables, once before the first use. */
import { UnavailableError } from "../../core/errors.js";
import { UNBOUND } from "../sql-transactions.js";
import type { Faults } from "./client.js";
import { NEWER_VERSION_STATE, quoteIdentifier } from "../../dialects/postgres.js";
import { fenceTablesSql, SCHEMA_VERSION } from "./schema.js";
import type { Transactions } from "../sql-transactions.js";

/** Settings of the set-up. */
export interface SetupOptions {
  readonly schema: string;
  readonly migrate: boolean;
}

/** The fence's tables in one schema. Any number of processes may make them at once. */
export class Setup {
  readonly #transactions: Transactions;
  readonly #faults: Faults;
  readonly #options: SetupOptions;
  #ready: Promise<void> | undefined;

  constructor(transactions: Transactions, faults: Faults, options: SetupOptions) {
    this.#transactions = transactions;
    this.#faults = faults;
    this.#options = options;
  }

  /**
   * Resolves once the tables are there; tries again at the next call after a failure.
   *
   * @throws UnavailableError for missing tables with `migrate: false`, tables of another version, a
   *   missing permission, a standby.
   */
  async ready(): Promise<void> {
    this.#ready ??= this.#prepare();
    try {
      await this.#ready;
    } catch (error) {
      this.#ready = undefined;
      throw error;
    }
  }

  async #prepare(): Promise<void> {
    const { schema, migrate } = this.#options;
    const found = await this.#version();
    if (found === SCHEMA_VERSION) return;
    if (found !== undefined && found > SCHEMA_VERSION) throw newer(schema, `version ${found}`);
    if (!migrate) {
      throw unavailable(
        `the fence's tables in the schema ${schema} are missing or old: run what ` +
          "fenceSchemaSql() makes, or leave migrate at true",
      );
    }
    await this.#make();
  }

  /** Undefined where there are no tables. */
  async #version(): Promise<number | undefined> {
    const s = quoteIdentifier(this.#options.schema);
    const during = "look at the fence's tables";
    return await this.#transactions.run("read", during, UNBOUND, (transaction) =>
      this.#transactions.own(during, async () => {
        // A statement that fails would end the transaction.
        const there = await transaction.query("SELECT to_regclass($1) IS NOT NULL AS there", [
          `${s}.fence_version`,
        ]);
        if (there.rows[0]?.["there"] !== true) return undefined;
        const { rows } = await transaction.query(`SELECT version FROM ${s}.fence_version`);
        return rows[0] === undefined ? undefined : Number(rows[0]["version"]);
      }),
    );
  }

  async #make(): Promise<void> {
    const { schema } = this.#options;
    const during = "make the fence's tables";
    await this.#transactions.run("write", during, UNBOUND, async (transaction) => {
      try {
        await transaction.query(fenceTablesSql(schema));
      } catch (error) {
        const state = this.#faults.sqlState(error);
        if (state === NEWER_VERSION_STATE) throw newer(schema, "a newer version");
        if (state === "42501") {
          throw unavailable(
            `the fence's tables in the schema ${schema} are missing, and the user has no ` +
              "permission to make them: have their owner run what fenceSchemaSql() makes",
            error,
          );
        }
        throw this.#faults.explain(error, { during, backend: "postgres", unsent: true });
      }
    });
  }
}

function newer(schema: string, theirs: string): UnavailableError {
  return unavailable(
    `the fence's tables in the schema ${schema} have ${theirs}, this release of Tenure knows ` +
      `${SCHEMA_VERSION}: use a newer release, or another schema`,
  );
}

function unavailable(message: string, cause?: unknown): UnavailableError {
  const context = { backend: "postgres", retryable: false };
  return new UnavailableError(message, cause === undefined ? context : { ...context, cause });
}
