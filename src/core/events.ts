/**
 * What happened, as plain data. The platform publishes each event on `node:diagnostics_channel`
 * under `tenure:<type>`; the core only hands it over.
 */
import type { Held } from "./backend.js";
import type { LostReason } from "./errors.js";

/** Facts that most events share. */
interface About {
  /** Lock name, or the resource's name for events of a fence. */
  readonly name: string;
  readonly backend: string;
}

/** What kept a process from renewing in time, milliseconds each. */
export interface PauseShare {
  /** How late the renewal left. */
  readonly latenessMs: number;
  /** Part during which the machine was suspended. */
  readonly suspendMs: number;
  /** Longest garbage collection since monitoring began. */
  readonly gcMaxMs: number;
  /** All garbage collections since monitoring began. */
  readonly gcTotalMs: number;
  /** Longest event-loop delay since monitoring began. */
  readonly eventLoopMaxMs: number;
}

/** Why a term of leadership ended: its lease was lost, or its leader or the caller said so. */
export type RevokedReason = LostReason | "resigned" | "aborted" | "closed";

/** Every event, told apart by `type`. */
export type TenureEvent =
  | (About & {
      readonly type: "granted";
      readonly token: bigint | undefined;
      readonly holder: string;
      readonly waitedMs: number;
      readonly storeEpoch?: string;
    })
  | (About & {
      readonly type: "refused";
      readonly holder: string;
      readonly held: Held | undefined;
      readonly waitedMs: number;
    })
  | (About & {
      readonly type: "renewed";
      readonly token: bigint | undefined;
      readonly holder: string;
      readonly roundTripMs: number;
      readonly pause: PauseShare;
    })
  | (About & {
      readonly type: "unknown";
      readonly token: bigint | undefined;
      readonly holder: string;
      readonly why: "unavailable" | "unknown" | "clock";
      readonly error?: unknown;
    })
  | (About & {
      readonly type: "lost";
      readonly token: bigint | undefined;
      readonly holder: string;
      readonly reason: LostReason;
      readonly by?: Held;
    })
  | (About & {
      readonly type: "ending";
      readonly token: bigint | undefined;
      readonly holder: string;
      readonly remainingMs: number;
    })
  | (About & {
      readonly type: "released";
      readonly token: bigint | undefined;
      readonly holder: string;
      readonly heldMs: number;
      readonly answer: "released" | "not-held";
    })
  | (About & {
      readonly type: "removed";
      readonly token: bigint | undefined;
      readonly holder: string;
      readonly by?: Held;
    })
  | (About & {
      readonly type: "unrenewed";
      readonly token: bigint | undefined;
      readonly holder: string;
      readonly sinceMs: number;
      readonly ttlMs: number;
    })
  | (About & {
      readonly type: "elected";
      readonly term: bigint;
      readonly holder: string;
      readonly waitedMs: number;
    })
  | (About & {
      readonly type: "revoked";
      readonly term: bigint;
      readonly holder: string;
      readonly reason: RevokedReason;
    })
  | (About & { readonly type: "long-holds"; readonly medianMs: number; readonly ttlMs: number })
  | (About & { readonly type: "broken"; readonly token: bigint; readonly reason: string })
  | (About & { readonly type: "unavailable"; readonly during: string; readonly error: unknown })
  | (About & { readonly type: "proceeded"; readonly error: unknown })
  | (About & {
      readonly type: "stale-write";
      readonly token: bigint;
      readonly mark: bigint;
      readonly operation: "arm" | "read" | "write";
      readonly onStale: "reject" | "ignore" | "log";
    })
  | (About & {
      readonly type: "conflict";
      readonly token: bigint;
      readonly holder: string;
      readonly markHolder: string;
    })
  | (About & {
      readonly type: "rebased";
      readonly from: string;
      readonly to: string;
      readonly reason: string;
    })
  | (About & { readonly type: "bypassed"; readonly reason: string })
  | (About & { readonly type: "warning"; readonly message: string });

/** Name of an event. */
export type EventType = TenureEvent["type"];

/** Where events go. */
export interface EventSink {
  /** Whether anybody listens: lets hot paths skip building the event. */
  wants(type: EventType): boolean;
  publish(event: TenureEvent): void;
}
