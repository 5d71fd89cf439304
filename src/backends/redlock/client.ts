import type { TenureError } from "../../core/errors.js";

/** A reply: bytes are text. */
export type Reply = string | number | null | readonly Reply[];

/** Sends commands to one server. Rejects as its library does. */
export interface Commands {
  /** A client of a cluster: not one of several independent servers. */
  readonly isCluster: boolean;
  send(args: readonly string[]): Promise<Reply>;
  /** Runs a script by its digest, and loads it where the server does not know it. */
  evaluate(script: string, keys: readonly string[], args: readonly string[]): Promise<Reply>;
}

/** A connection of the backend's own. Commands sent while it is down fail at once. */
export interface Connection {
  readonly commands: Commands;
  readonly connected: Promise<void>;
  close(): void;
}

/** Opens the connection to one of the servers. */
export type Connect = () => Promise<Connection>;

/** What a client library threw, as one of our errors. */
export interface Faults {
  explain(
    error: unknown,
    failure: { readonly during: string; readonly backend: string },
  ): TenureError;
}
