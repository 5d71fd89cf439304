import type { TenureError } from "../../core/errors.js";

/** A reply: maps are flat arrays, bytes are text. */
export type RedisValue = string | number | null | readonly RedisValue[];

/** Runs a script by its digest, and loads it where the server does not know it. */
export interface Scripting {
  evaluate(
    script: string,
    keys: readonly string[],
    args: readonly string[],
  ): Promise<RedisValue>;
}

/** What a client library threw, as one of our errors. */
export interface Faults {
  explain(
    error: unknown,
    failure: { readonly during: string; readonly backend: string },
  ): TenureError;
}
