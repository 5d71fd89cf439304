/** The part of `drivers/dynamodb` that the fence uses; a test may pass its own. */
import type { Item, Update, Written } from "../../dialects/dynamodb.js";

/** Why one action of a transaction kept it from happening; `None` for those that did not. */
export interface Reason {
  readonly code: string;
  readonly message?: string;
}

/** What came of a transaction. */
export type Transacted = { readonly done: true } | { readonly refused: readonly Reason[] };

/** What a request is bounded and told by. */
export interface During {
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
  /** As it stands after "cannot". */
  readonly during: string;
}

/** A client of DynamoDB: what it throws are errors of Tenure. Reads are consistent. */
export interface Client {
  update(update: Update, call: During): Promise<Written>;
  get(table: string, key: Item, call: During): Promise<Item | undefined>;
  transact(actions: readonly object[], call: During): Promise<Transacted>;
}
