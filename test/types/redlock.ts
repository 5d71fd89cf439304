/** What must compile of Redlock and the Redis clients, and what must not: checked by `tsc`. */
import { Cluster as IoCluster, Redis as IoRedis } from "ioredis";
import { Cluster as IoValkeyCluster, Redis as IoValkey } from "iovalkey";
import { createClient, createCluster, createSentinel } from "redis";
import { redlock } from "../../src/backends/redlock/open.js";
import { connect } from "../../src/connect.js";
import type { RedisClient } from "../../src/drivers/redis/client.js";
import { memoryFence } from "../../src/fences/memory/open.js";

const fence = memoryFence();

export async function purposes(): Promise<void> {
  const backend = redlock(["redis://a", "redis://b", "redis://c"]);
  const tenure = await connect(backend, { purpose: "efficiency" });
  const lease = await tenure.acquire("x");
  const token: undefined = lease.token;
  void token;
  // @ts-expect-error no fence takes a lease without a token
  await fence.arm(lease, "account");
  // @ts-expect-error correctness is the default, and Redlock has no tokens
  await connect(backend);
  // @ts-expect-error Redlock has no tokens
  await connect(backend, { purpose: "correctness" });
  const byUrl = await connect("redlock:redis://a,redis://b,redis://c", { purpose: "efficiency" });
  // @ts-expect-error by URL the token may be undefined, which no fence takes
  await fence.arm(await byUrl.acquire("x"), "account");
}

export function clients(): readonly RedisClient[] {
  redlock([createClient(), new IoRedis(), new IoValkey(), "redis://a"]);
  // @ts-expect-error neither a client nor a URL
  redlock([3, 4, 5]);
  return [
    createClient(),
    createCluster({ rootNodes: [] }),
    createSentinel({ name: "n", sentinelRootNodes: [] }),
    new IoRedis(),
    new IoCluster([]),
    new IoValkey(),
    new IoValkeyCluster([]),
  ];
}
