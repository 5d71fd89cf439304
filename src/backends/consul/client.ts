/** The part of `drivers/consul` that the backend uses; a test may pass its own. */
import type { Call } from "../../core/backend.js";

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
  | { readonly verb: "set"; readonly key: string; readonly value: string }
  | {
      readonly verb: "lock";
      readonly key: string;
      readonly value: string;
      readonly session: string;
    }
  | { readonly verb: "delete" | "check-not-exists"; readonly key: string }
  | { readonly verb: "check-index"; readonly key: string; readonly index: bigint };

/** What came of a transaction. */
export type TxnAnswer =
  { readonly done: readonly Entry[] } | { readonly refused: readonly { readonly what: string }[] };

/** What a request is bounded and told by. */
export interface During extends Pick<Call, "signal" | "timeoutMs"> {
  /** As it stands after "cannot". */
  readonly during: string;
  readonly lane?: "renewals" | "watches";
}

/** A client of one agent: what it throws are errors of Tenure. Reads are consistent. */
export interface Client {
  txn(ops: readonly Op[], call: During): Promise<TxnAnswer>;
  read(keys: readonly string[], call: During): Promise<readonly (Entry | undefined)[]>;
  tree(prefix: string, call: During): Promise<readonly Entry[]>;
  watch(
    key: string,
    since: { readonly index: bigint; readonly waitMs: number } | undefined,
    call: During,
  ): Promise<{ readonly entry: Entry | undefined; readonly index: bigint }>;
  openSession(
    settings: { readonly ttlMs: number; readonly lockDelayMs: number },
    call: During,
  ): Promise<string>;
  keepSession(id: string, call: During): Promise<"alive" | "gone">;
  closeSession(id: string, call: During): Promise<void>;
  countServers(call: During): Promise<number>;
  close(): void;
}
