import type { Backend } from "../../core/backend.js";
import { ArgumentTypeError } from "../../core/errors.js";
import { checkKnown } from "../../core/options.js";
import type { Runtime } from "../../core/runtime.js";
import { knownRedis, type RedisClient } from "../../drivers/redis/client.js";
import { explainRedis } from "../../drivers/redis/errors.js";
import { checkUrl, openBesideRedis, openRedis } from "../../drivers/redis/open.js";
import { platform } from "../../platform/index.js";
import { redlockBackend } from "./index.js";
import { checkServers, type RedlockSettings } from "./options.js";

export type { RedisClient } from "../../drivers/redis/client.js";
export type { RedlockSettings } from "./options.js";

const OPTIONS: readonly string[] = ["prefix", "storeId", "runtime"];

/**
 * A backend on a majority of independent Redis servers: three or more clients of node-redis,
 * ioredis or iovalkey, or URLs (`redis://`, `rediss://`), one for each server. The backend opens
 * connections of its own, with the settings of each client; the clients stay the caller's.
 *
 * All processes must name the same servers: majorities of different sets need not meet.
 *
 * Not promised: mutual exclusion. A server that forgets (restarted without its data), whose clock
 * runs ahead, or a majority that stops with the work going on, gives a second holder the lease, and
 * without fencing tokens nothing can tell the two apart. Hence `connect` takes it only with
 * `purpose: "efficiency"`.
 *
 * @throws TypeError or RangeError for wrong options, or fewer than three servers.
 */
export function redlock(
  servers: readonly (RedisClient | string)[],
  options: RedlockSettings & { readonly runtime?: Runtime } = {},
): Backend<undefined> {
  checkKnown(options, OPTIONS);
  const connects = checkServers(servers, "servers").map((server, i) => {
    if (typeof server === "string") {
      checkUrl(server);
      return () => openRedis(server);
    }
    const { kind } = knownRedis(server, `servers[${i}]`);
    if (kind.endsWith("-cluster")) {
      throw new ArgumentTypeError(`servers[${i}]`, server, "a client of one server, no cluster");
    }
    return async () => openBesideRedis(server);
  });
  return redlockBackend({
    ...options,
    servers: connects,
    faults: { explain: explainRedis },
    runtime: options.runtime ?? platform(),
  });
}

/** The URLs in `redis://a,redis://b,redis://c`. A comma inside of one is written %2C. */
export function splitUrls(list: string): readonly string[] {
  return list.split(/,(?=rediss?:)/);
}
