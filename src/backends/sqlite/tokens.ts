/**
 * Where tokens come from: one counter per file, strictly increasing in the order in which the
 * transactions of all processes commit, and never going back, not even when the power fails.
 *
 * **Blocks.** A process takes 16 tokens at a time and writes into the store row who took last. It
 * goes on using its block only as long as it still is the one that took last; this is tested inside
 * the transaction that grants. So:
 *
 * 1. A takes 100 to 115 and grants 100.
 * 2. B takes 116 to 131 and grants 116.
 * 3. A must not grant 101 now: it sees that B took last, and takes 132 to 147.
 *
 * **The ceiling.** Without a flush per commit a power failure can lose the last transactions, and a
 * counter that lost them would repeat its tokens. So tokens are handed out only below a ceiling
 * that is known to be on the disk: a new ceiling is committed as `pending`, the WAL is flushed in
 * the thread pool, and only then is it published. After a boot counting goes on from `pending`,
 * which is above every token ever handed out. This rests on a disk that flushes when told to.
 */
import { UnavailableError } from "../../core/errors.js";
import type { Value } from "./client.js";
import { CeilingReached } from "./busy.js";
import type { StoreRow } from "./schema.js";
import type { Statements } from "./statements.js";

const BLOCK = 16n;
/** Tokens between two flushes. About one second of the microseconds that seed the counter. */
export const CEILING_STEP = 1_048_576n;

/** The store row. */
export function readStore(statements: Pick<Statements, "readStore">): StoreRow {
  const row = statements.readStore.get() as StoreRow | undefined;
  if (row !== undefined) return row;
  throw new UnavailableError(
    "the row of tenure_store was deleted, and the token counter with it; connect again",
    { backend: "sqlite", retryable: false },
  );
}

/** Tokens for one process. */
export class Tokens {
  readonly #statements: Pick<Statements, "readStore" | "takeBlock">;
  readonly #session: Value;
  readonly #lowCeiling: () => void;
  #next = 0n;
  #end = 0n;

  /** `lowCeiling` is called when it is time to raise the ceiling. */
  constructor(
    statements: Pick<Statements, "readStore" | "takeBlock">,
    session: bigint,
    lowCeiling: () => void,
  ) {
    this.#statements = statements;
    this.#session = session;
    this.#lowCeiling = lowCeiling;
  }

  /** The token to grant with, if this process still is the one that took last. */
  candidate(): bigint | undefined {
    return this.#next < this.#end ? this.#next : undefined;
  }

  /** The candidate has been granted. */
  used(): void {
    this.#next += 1n;
  }

  /**
   * A token, inside a write transaction.
   *
   * @throws CeilingReached when the ceiling has to be raised first.
   */
  take(): bigint {
    const store = readStore(this.#statements);
    if (store.taker !== this.#session || this.#next >= this.#end) this.#takeBlock(store);
    const token = this.#next;
    this.#next += 1n;
    return token;
  }

  /** The transaction was rolled back: a block that it took was not taken. */
  forget(): void {
    this.#next = this.#end = 0n;
  }

  #takeBlock(store: StoreRow): void {
    const end = store.next + BLOCK;
    if (end > store.ceiling) throw new CeilingReached();
    this.#statements.takeBlock.run(end, this.#session);
    this.#next = store.next;
    this.#end = end;
    if (store.ceiling - end < CEILING_STEP / 2n) this.#lowCeiling();
  }
}
