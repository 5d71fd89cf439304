import { checkKnown } from "../../core/options.js";
import type { RedisClient } from "../../drivers/redis/client.js";
import { redisCommands } from "../../drivers/redis/commands.js";
import { explainRedis } from "../../drivers/redis/errors.js";
import { platform } from "../../platform/index.js";
import type { OnStale } from "../contract.js";
import { createRedisFence, type RedisFence, type RedisFenceOptions } from "./index.js";

export { armAll, type ArmedAll } from "../arm-all.js";
export type * from "../contract.js";
export type { Mark, Scope } from "../decide.js";
export type { RedisValue } from "./client.js";
export type { RedisFence, RedisFenceOptions } from "./index.js";
export type { RedisReply, RedisTx } from "./transaction.js";

/**
 * Fence over keys of Redis 7 or Valkey, through a client of node-redis, ioredis or iovalkey, alone
 * or of a cluster. The client stays the caller's; it may be the one that the application uses.
 *
 * @throws TypeError for anything else as client, TypeError or RangeError for wrong options.
 */
export function redisFence<S extends OnStale = "reject">(
  client: RedisClient,
  options: RedisFenceOptions<S> = {},
): RedisFence<S> {
  checkKnown(options, ["onStale", "prefix"]);
  const commands = redisCommands(client);
  return createRedisFence(
    { commands, faults: { explain: explainRedis }, runtime: platform() },
    options,
  );
}
