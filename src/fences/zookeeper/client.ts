import type { TenureError } from "../../core/errors.js";

/** What bounds one request. */
export interface Bounds {
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
}

/** A node as it was read. */
export interface Node {
  readonly data: Buffer;
  readonly stat: { readonly czxid: bigint; readonly mzxid: bigint; readonly version: number };
}

/** One change of a transaction; version -1 is any. */
export type Change =
  | {
      readonly kind: "create";
      readonly path: string;
      readonly data: Uint8Array;
      readonly mode: "persistent";
    }
  | {
      readonly kind: "set";
      readonly path: string;
      readonly data: Uint8Array;
      readonly version: number;
    }
  | { readonly kind: "delete" | "check"; readonly path: string; readonly version: number };

/** What came of changes: all were made, or none, because of the one at `place`. */
export type Committed =
  { readonly ok: true } | { readonly ok: false; readonly why: string; readonly place: number };

/** One session. */
export interface FenceSession {
  /** `fresh`: as they are after the call began. */
  children(path: string, call: Bounds, fresh: boolean): Promise<readonly string[] | undefined>;
  node(path: string, call: Bounds, how?: { readonly fresh?: boolean }): Promise<Node | undefined>;
  commit(changes: readonly Change[], call: Bounds): Promise<Committed>;
}

/** The ensemble that has marks and data. */
export interface FenceClient {
  readonly chroot: string;
  /** `ask` may run twice. */
  use<R>(call: Bounds, ask: (session: FenceSession) => Promise<R>): Promise<R>;
  close(): Promise<void>;
}

/** What a session threw, as one of our errors. */
export interface Faults {
  explain(
    error: unknown,
    failure: { readonly during: string; readonly backend: string },
  ): TenureError;
}
