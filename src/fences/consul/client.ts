/** The part of `drivers/consul` that the fence uses; a test may pass its own. */

/** A key as the store has it. */
export interface Entry {
  readonly key: string;
  readonly value: Uint8Array;
  readonly session: string | undefined;
  /** `ModifyIndex`. */
  readonly index: bigint;
}

/** One operation of a transaction. */
export type Op =
  | { readonly verb: "set"; readonly key: string; readonly value: string | Uint8Array }
  | {
      readonly verb: "cas";
      readonly key: string;
      readonly value: string;
      readonly index: bigint;
    }
  | { readonly verb: "delete" | "delete-tree" | "check-not-exists"; readonly key: string }
  | { readonly verb: "check-index"; readonly key: string; readonly index: bigint }
  | { readonly verb: "check-session"; readonly key: string; readonly session: string };

/** What came of a transaction. */
export type TxnAnswer =
  | { readonly done: readonly Entry[] }
  | { readonly refused: readonly { readonly op: number; readonly what: string }[] };

/** What a request is bounded and told by. */
export interface During {
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
  /** As it stands after "cannot". */
  readonly during: string;
}

/** A client of one agent: what it throws are errors of Tenure. Reads are consistent. */
export interface Client {
  txn(ops: readonly Op[], call: During): Promise<TxnAnswer>;
  /** The keys as they were at one moment. */
  read(keys: readonly string[], call: During): Promise<readonly (Entry | undefined)[]>;
}
