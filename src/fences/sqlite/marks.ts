/** Marks, proofs and the audit as rows: the statements of the fence, compiled once. */
import { GuaranteeError, UnavailableError } from "../../core/errors.js";
import type { FenceRequest, MarkRecord, PastMark } from "../decide.js";
import { pastFromJson, pastToJson } from "../record.js";
import type { Connection, Statement } from "./connection.js";

interface MarkRow {
  readonly store_id: string;
  readonly lock: string;
  readonly token: bigint;
  readonly holder: string;
  readonly arm: bigint;
  readonly n: bigint;
  readonly past: string;
}

/** The rows of the fence; each method runs inside a transaction. */
export class Marks {
  readonly #read: Statement;
  readonly #insert: Statement;
  readonly #update: Statement;
  readonly #isGuarding: Statement;
  readonly #prove: Statement;
  readonly #unprove: Statement;
  readonly #audit: Statement;

  /** The tables must exist. */
  constructor(connection: Connection) {
    const sql = (text: string): Statement => connection.prepare(text);
    this.#read = sql(`SELECT store_id, lock, token, holder, arm, n, past
      FROM main.tenure_fence_mark WHERE resource = ?`);
    this.#insert = sql(`INSERT INTO main.tenure_fence_mark
      (store_id, lock, token, holder, arm, n, past, resource) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`);
    this.#update = sql(`UPDATE main.tenure_fence_mark SET store_id = ?, lock = ?, token = ?,
      holder = ?, arm = ?, n = ?, past = ? WHERE resource = ?`);
    this.#isGuarding = sql(`SELECT EXISTS (SELECT 1 FROM main.tenure_fence_table) AS needed,
      (SELECT foreign_keys FROM pragma_foreign_keys) AS possible`);
    this.#prove = sql(`INSERT INTO main.tenure_fence_proof (resource, token, holder, arm)
      VALUES (?, ?, ?, ?)`);
    this.#unprove = sql("DELETE FROM main.tenure_fence_proof");
    this.#audit = sql(`INSERT INTO main.tenure_fence_audit (event, subject, detail)
      VALUES (?, ?, ?)`);
  }

  /** @throws UnavailableError for a row that is no mark: never taken for none. */
  load(resource: string): MarkRecord | null {
    const row = this.#read.get(resource) as MarkRow | undefined;
    if (row === undefined) return null;
    const { store_id: storeId, lock: name, token, holder } = row;
    const past = readPast(resource, row.past);
    const [arm, n] = [Number(row.arm), Number(row.n)];
    return { scope: { storeId, name }, token, holder, arm, n, past };
  }

  save(resource: string, record: MarkRecord, isNew: boolean): void {
    const { scope, token, holder, arm, n, past } = record;
    const values = [
      scope.storeId, scope.name, token, holder, BigInt(arm), BigInt(n),
      JSON.stringify(pastToJson(past)), resource,
    ] as const;
    (isNew ? this.#insert : this.#update).run(...values);
  }

  /**
   * Proves to the triggers of fenced tables that this transaction is an armed handle's.
   *
   * @throws GuaranteeError when there are such tables and `foreign_keys` is off.
   */
  prove(request: FenceRequest): void {
    if (!this.#isProofNeeded()) return;
    this.#prove.run(request.resource, request.token, request.holder, BigInt(request.arm));
  }

  /** Proves to them that this transaction may write what it likes, and audits it. */
  proveBypass(reason: string): void {
    this.#isProofNeeded();
    this.#prove.run("", 0n, reason, 0n);
  }

  #isProofNeeded(): boolean {
    const state = this.#isGuarding.get() as { needed: bigint; possible: bigint };
    if (state.needed === 1n && state.possible === 0n) throw foreignKeysOff();
    return state.needed === 1n;
  }

  /** To be done before COMMIT, which fails while there is a proof. */
  unprove(): void {
    this.#unprove.run();
  }

  audit(event: "rebase" | "install" | "uninstall", subject: string, detail: string): void {
    this.#audit.run(event, subject, detail);
  }
}

function readPast(resource: string, text: string): PastMark[] {
  try {
    return pastFromJson(JSON.parse(text));
  } catch (cause) {
    throw new UnavailableError(`the mark of ${JSON.stringify(resource)} is damaged`, {
      cause,
      backend: "sqlite",
      retryable: false,
    });
  }
}

/** A proof is kept from being committed by a foreign key: without them it could be left behind. */
export function foreignKeysOff(): GuaranteeError {
  return new GuaranteeError(
    "fenced tables need PRAGMA foreign_keys = ON on this connection: without it a proof could be " +
      "committed, and outlive its transaction",
    { backend: "sqlite" },
  );
}
