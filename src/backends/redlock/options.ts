import { ArgumentRangeError, ArgumentTypeError } from "../../core/errors.js";
import { checkName } from "../../core/names.js";
import type { Runtime } from "../../core/runtime.js";
import type { Connect, Faults } from "./client.js";

/** What the caller may choose. */
export interface RedlockSettings {
  /** Beginning of all keys. Default `tenure:redlock:`. */
  readonly prefix?: string;
  /** Id of the store. Default: one that a majority of the servers keeps. */
  readonly storeId?: string;
}

/** Settings of `redlockBackend`. */
export interface RedlockBackendOptions extends RedlockSettings {
  /** One for each server. */
  readonly servers: readonly Connect[];
  readonly faults: Faults;
  readonly runtime: Pick<Runtime, "timers" | "random" | "events">;
}

const DEFAULT_PREFIX = "tenure:redlock:";
const FEWEST = 3;
const isArray: (value: unknown) => boolean = Array.isArray;

/** @throws TypeError or RangeError naming the option and its value. */
export function checkSettings(settings: RedlockSettings): { readonly prefix: string } {
  const { prefix = DEFAULT_PREFIX, storeId } = settings;
  checkName(prefix, "prefix");
  if (storeId !== undefined) checkName(storeId, "storeId");
  return { prefix };
}

/**
 * The servers, as given.
 *
 * @throws TypeError or RangeError for fewer than three: one server is better used with `redis`,
 *   which gives fencing tokens, and two stop working as soon as either does.
 */
export function checkServers<S>(servers: readonly S[], option: string): readonly S[] {
  if (!isArray(servers)) throw new ArgumentTypeError(option, servers, "an array");
  if (servers.length < FEWEST) {
    const must = `at least ${FEWEST}: one server is better used with redis, which gives tokens`;
    throw new ArgumentRangeError(option, servers.length, must);
  }
  return servers;
}
