/** What the wrapper and its guard say to each other, as JSON over the pipe between them. */
import type { Limit, Until } from "./machine-time.js";
import type { ProcessGroup } from "./process-group.js";

/** What to run. */
export interface ChildCommand {
  readonly file: string;
  readonly args: readonly string[];
  /** The whole environment of the child. */
  readonly env: Readonly<Record<string, string | undefined>>;
}

/** A lease that the guard sees to when the wrapper is gone, by `tenure` itself. */
export interface Orphan {
  /** The script of `tenure`, for Node. */
  readonly script: string;
  readonly name: string;
  readonly holder: string;
  readonly token: string;
  /** Kept until then, even if the child ends sooner. */
  readonly until: Until | null;
}

/** From the wrapper. */
export type ToGuard =
  /** Run it, until `limit`; null is a run without a lease. */
  | {
      readonly type: "start";
      readonly command: ChildCommand;
      readonly limit: Limit | null;
      /** Null where the lease is not the guard's to end. */
      readonly orphan: Orphan | null;
    }
  /** The lease was renewed. */
  | { readonly type: "extend"; readonly limit: Limit }
  /** The lease is lost: this limit is the last. */
  | { readonly type: "stop"; readonly limit: Limit }
  | { readonly type: "signal"; readonly signal: NodeJS.Signals; readonly whole: boolean }
  /** The wrapper has seen to the lease. */
  | { readonly type: "done" };

/** From the guard. */
export type FromGuard =
  | { readonly type: "started"; readonly group: ProcessGroup }
  /** It was not started: an errno name, or `LATE` when the limit had passed. */
  | { readonly type: "failed"; readonly code: string; readonly message: string }
  | ({ readonly type: "ended" } & ChildEnd);

/** How a child ended, once nothing of its group is left. */
export interface ChildEnd {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** Whether it was stopped because its lease ended. */
  readonly stopped: boolean;
}
