import type { Call } from "../../core/backend.js";
import type { TenureError } from "../../core/errors.js";

/** A node as it was read. */
export interface Node {
  readonly data: Buffer;
  readonly stat: { readonly czxid: bigint; readonly ephemeralOwner: bigint };
}

/** One change of a transaction. */
export type Change =
  | {
      readonly kind: "create";
      readonly path: string;
      readonly data: Uint8Array;
      readonly mode: "persistent" | "ephemeral-sequential" | "container";
    }
  | { readonly kind: "delete"; readonly path: string; readonly version: number };

/** A node that was made; in a transaction some servers leave out all but its path. */
export interface Made {
  readonly path: string;
  readonly stat?: Node["stat"];
}

/** What came of changes: all were made, or none. */
export type Committed =
  | {
      readonly ok: true;
      /** For each change the node that it made, if it made one. */
      readonly done: readonly (Made | undefined)[];
    }
  | {
      readonly ok: false;
      readonly why: "no-node" | "node-exists" | "bad-version" | "not-empty";
    };

/** One session of the ensemble. Nothing but what is called keeps it alive. */
export interface ZkSession {
  readonly id: string;
  /** What its ephemeral nodes show as their owner. */
  readonly owner: bigint;
  /** As the server granted it, milliseconds. */
  readonly timeoutMs: number;
  readonly isGone: boolean;
  /** The newest transaction of which this session has heard. */
  readonly lastZxid: bigint;
  ping(call: Call): Promise<"alive" | "gone">;
  /** Tells once that the node changed, or that this cannot be known any more. */
  watch(path: string, changed: () => void): () => void;
  /** Where the connection is lost, another one is looked for as long as `patienceMs`. */
  close(patienceMs?: number): Promise<void>;
  /** `fresh`: as they are after the call began. */
  children(path: string, call: Call, fresh: boolean): Promise<readonly string[] | undefined>;
  node(
    path: string,
    call: Call,
    how?: { readonly fresh?: boolean; readonly watch?: boolean },
  ): Promise<Node | undefined>;
  /** Fresh, in one round trip. */
  nodes(paths: readonly string[], call: Call): Promise<readonly (Node | undefined)[]>;
  commit(changes: readonly Change[], call: Call): Promise<Committed>;
  /** And in the same round trip how many children `path` has right after, where that is told. */
  commitAndCount(
    changes: readonly Change[],
    path: string,
    call: Call,
  ): Promise<{
    readonly committed: Committed;
    readonly children: Promise<number | undefined>;
  }>;
}

/** Opens sessions at one ensemble. */
export interface ZkClient {
  readonly chroot: string;
  open(timeoutMs: number, call: Call): Promise<ZkSession>;
  /** On a session for what belongs to no lease; `ask` may run twice. */
  use<R>(call: Call, ask: (session: ZkSession) => Promise<R>): Promise<R>;
  close(): Promise<void>;
}

/** What a session threw, as one of our errors. */
export interface Faults {
  explain(
    error: unknown,
    failure: { readonly during: string; readonly backend: string; readonly lock?: string },
  ): TenureError;
  /** Whether the request may have been carried out: its answer was lost. */
  isLost(error: unknown): boolean;
  /** Whether the session has ended, and with it its nodes. */
  isGone(error: unknown): boolean;
  /** Whether the server forbids it to this user. */
  isForbidden(error: unknown): boolean;
}
