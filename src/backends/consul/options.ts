import type { Runtime } from "../../core/runtime.js";
import { parseDuration, type Duration } from "../../core/duration.js";
import { checkName } from "../../core/names.js";
import type { Client } from "./client.js";
import { checkKeyPrefix, DEFAULT_PREFIX } from "./keys.js";

/** What the caller may choose. */
export interface ConsulSettings {
  /** Beginning of all keys. Default: the path of the URL, else `tenure`. */
  readonly prefix?: string;
  /**
   * How long a name is held back after the session that held it has **died**: expired, or was
   * destroyed. A release does not cause it. 0 to 60 s, default 15 s, which is Consul's own.
   */
  readonly lockDelay?: Duration;
  /**
   * Shortest TTL that the servers take: their setting `session_ttl_min`. Default 10 s, which is
   * theirs.
   */
  readonly minTtl?: Duration;
  /** Id of the store, where two stores are to count as one. Default: the one kept in the store. */
  readonly storeId?: string;
}

/** Settings of `consulBackend`. */
export interface ConsulBackendOptions extends ConsulSettings {
  readonly client: Client;
  readonly runtime: Pick<Runtime, "clock" | "timers" | "random">;
}

/** Checked settings, milliseconds. */
export interface CheckedSettings {
  readonly prefix: string;
  readonly lockDelayMs: number;
  readonly minTtlMs: number;
  readonly storeId: string | undefined;
}

const LONGEST_LOCK_DELAY_MS = 60_000;
/** The longest TTL of a session, in every version. */
export const MAX_TTL_MS = 86_400_000;

/** @throws TypeError or RangeError naming the option and its value. */
export function checkSettings(settings: ConsulSettings): CheckedSettings {
  const { prefix = DEFAULT_PREFIX, lockDelay = "15s", minTtl = "10s", storeId } = settings;
  const delay = { zero: true, maxMs: LONGEST_LOCK_DELAY_MS };
  return {
    prefix: checkKeyPrefix(prefix),
    lockDelayMs: parseDuration(lockDelay, "lockDelay", delay),
    minTtlMs: parseDuration(minTtl, "minTtl", { maxMs: MAX_TTL_MS }),
    storeId: storeId === undefined ? undefined : checkName(storeId, "storeId"),
  };
}
