import type { TenureError } from "../../core/errors.js";

/** A reply: maps are flat arrays, bytes are text. */
export type Reply = string | number | null | readonly Reply[];

/** Sends commands; on a cluster, to the node that has the key. Rejects as its library does. */
export interface Commands {
  readonly isCluster: boolean;
  /** @param key any key of the command: on a cluster it says which node to ask */
  send(args: readonly string[], key?: string): Promise<Reply>;
  /** Runs a script by its digest, and loads it where the server does not know it. */
  evaluate(script: string, keys: readonly string[], args: readonly string[]): Promise<Reply>;
  /** The primaries, each for a part of the keys; itself, but on a cluster. */
  primaries(): Promise<readonly Commands[]>;
}

/** Messages of channels; sharded ones on a cluster. */
export interface Channels {
  subscribe(channel: string, hear: (message: string) => void): Promise<void>;
  unsubscribe(channel: string, hear: (message: string) => void): Promise<void>;
}

/** A connection of the backend's own. Commands sent while it is down fail at once. */
export interface Connection {
  readonly commands: Commands;
  readonly channels: Channels;
  readonly connected: Promise<void>;
  close(): void;
}

/**
 * Opens one more connection to the same server or cluster. `withinMs`: longest that the caller
 * waits for it; a connection with settings of its own goes by those.
 */
export type Connect = (withinMs: number) => Promise<Connection>;

/** What a client library threw, as one of our errors. */
export interface Faults {
  explain(
    error: unknown,
    failure: { readonly during: string; readonly backend: string; readonly lock?: string },
  ): TenureError;
}
