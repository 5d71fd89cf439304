import type { Backend } from "../../core/backend.js";
import { checkKnown } from "../../core/options.js";
import type { Runtime } from "../../core/runtime.js";
import { knownRedis, type RedisClient } from "../../drivers/redis/client.js";
import { explainRedis } from "../../drivers/redis/errors.js";
import { checkUrl, openBesideRedis, openRedis } from "../../drivers/redis/open.js";
import { platform } from "../../platform/index.js";
import { redisBackend } from "./index.js";
import type { RedisSettings } from "./options.js";

export type { RedisClient } from "../../drivers/redis/client.js";
export type { RedisSettings } from "./options.js";
export { ForeignKeyError } from "./replies.js";

const OPTIONS: readonly string[] = ["prefix", "fair", "replicas", "storeId", "runtime"];

/**
 * A backend on Redis or Valkey: a URL (`redis://` or, with TLS, `rediss://`), or a client of
 * node-redis, ioredis or iovalkey. The backend opens connections of its own, with the settings of
 * that client; the client itself stays the caller's.
 *
 * @throws TypeError or RangeError for wrong options, or for anything else as client.
 */
export function redis(
  clientOrUrl: RedisClient | string,
  options: RedisSettings & { readonly runtime?: Runtime } = {},
): Backend {
  checkKnown(options, OPTIONS);
  if (typeof clientOrUrl === "string") checkUrl(clientOrUrl);
  else knownRedis(clientOrUrl);
  return redisBackend({
    ...options,
    connect: async (withinMs) =>
      typeof clientOrUrl === "string"
        ? openRedis(clientOrUrl, { withinMs })
        : openBesideRedis(clientOrUrl),
    faults: { explain: explainRedis },
    runtime: options.runtime ?? platform(),
  });
}
