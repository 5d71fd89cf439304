import { ArgumentRangeError, ArgumentTypeError } from "../../core/errors.js";
import { checkName } from "../../core/names.js";
import type { Runtime } from "../../core/runtime.js";
import type { Connect, Faults } from "./client.js";
import { DEFAULT_PREFIX } from "./keys.js";

/** What the caller may choose. */
export interface RedisSettings {
  /** Beginning of all keys and channels. Default `tenure:`. */
  readonly prefix?: string;
  /**
   * Whether waiters are served in order of arrival, across processes. Default true. False: each
   * waiter asks again after a pause, and whoever asks first after a release gets the lease.
   */
  readonly fair?: boolean;
  /**
   * Replicas that must have a grant before it counts; a grant that too few have within a second is
   * given up. Default 0. It narrows what a failover can lose and does not end it.
   */
  readonly replicas?: number;
  /** Id of the store, where two stores are to count as one. Default: the one kept in the store. */
  readonly storeId?: string;
}

/** Settings of `redisBackend`. */
export interface RedisBackendOptions extends RedisSettings {
  readonly connect: Connect;
  readonly faults: Faults;
  readonly runtime: Pick<Runtime, "clock" | "timers" | "random" | "events">;
}

/** @throws TypeError or RangeError naming the option and its value. */
export function checkSettings(settings: RedisSettings): Required<Omit<RedisSettings, "storeId">> {
  const { prefix = DEFAULT_PREFIX, fair = true, replicas = 0, storeId } = settings;
  if (storeId !== undefined) checkName(storeId, "storeId");
  checkName(prefix, "prefix");
  // Braces and spaces have a meaning in our keys and records.
  if (/[{}\s]/.test(prefix)) {
    throw new ArgumentTypeError("prefix", prefix, "text without braces and spaces");
  }
  if (typeof fair !== "boolean") throw new ArgumentTypeError("fair", fair, "true or false");
  if (typeof replicas !== "number") {
    throw new ArgumentTypeError("replicas", replicas, "a whole number");
  }
  if (!Number.isSafeInteger(replicas) || replicas < 0) {
    throw new ArgumentRangeError("replicas", replicas, "a whole number, 0 or more");
  }
  return { prefix, fair, replicas };
}
