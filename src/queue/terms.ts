/** What the scripts of a queue are given, and what they answer. */
import type { FencingToken } from "../core/token.js";

/** A job to add; checked. */
export interface AddedJob {
  readonly queue: string;
  readonly key: string;
  readonly id: string;
  readonly payload: string;
  readonly delayMs: number;
}

/** Who takes. */
export interface Taker {
  readonly queue: string;
  readonly holder: string;
  readonly worker: string;
  readonly leaseMs: number;
  readonly maxTries: number;
}

/** A job that was taken. */
export interface TakenJob {
  readonly key: string;
  readonly seq: bigint;
  readonly id: string;
  readonly payload: string;
  readonly token: FencingToken;
  readonly tries: number;
}

/** The answer to a take. */
export interface Taking {
  readonly job: TakenJob | null;
  /** Milliseconds until a job may be there, as far as is known now; 0: there is more to look at. */
  readonly inMs: number | null;
}

/** Who ends or extends. */
export interface Running {
  readonly queue: string;
  readonly key: string;
  readonly seq: bigint;
  readonly holder: string;
  readonly token: FencingToken;
}

/** The name that a job's token belongs to. */
export function scopeOf(queue: string, key: string): string {
  return `${queue}/${key}`;
}
