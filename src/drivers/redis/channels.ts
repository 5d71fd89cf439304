/** Messages of Redis channels, on a connection that does nothing else. */
import type { KnownRedis } from "./client.js";
import { channelsByNode, type ClusterOfNodes } from "./channels-by-node.js";
import type { RedisChannels } from "./contract.js";

type Hear = (message: string) => void;
type Subscribe = (channel: string, hear: Hear) => Promise<unknown>;

interface NodeRedisSubscriber {
  readonly subscribe: Subscribe;
  readonly unsubscribe: Subscribe;
  readonly sSubscribe: Subscribe;
  readonly sUnsubscribe: Subscribe;
}

interface IoRedisSubscriber {
  subscribe(channel: string): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  ssubscribe(channel: string): Promise<unknown>;
  sunsubscribe(channel: string): Promise<unknown>;
  on(event: string, tell: (channel: string, message: string) => void): unknown;
}

/** Channels of a connection of our own. */
export function redisChannels(own: KnownRedis): RedisChannels {
  const client: unknown = own.client;
  const sharded = own.kind.endsWith("-cluster");
  if (own.kind === "ioredis-cluster" && !("shardedSubscribers" in own.client)) {
    return channelsByNode(client as ClusterOfNodes);
  }
  if (own.kind === "ioredis" || own.kind === "ioredis-cluster") {
    return ioRedisChannels(client as IoRedisSubscriber, sharded);
  }
  const subscriber = client as NodeRedisSubscriber;
  const [on, off] = sharded
    ? (["sSubscribe", "sUnsubscribe"] as const)
    : (["subscribe", "unsubscribe"] as const);
  return {
    subscribe: async (channel, hear) => void (await subscriber[on](channel, hear)),
    unsubscribe: async (channel, hear) => void (await subscriber[off](channel, hear)),
    close: () => undefined,
  };
}

/** ioredis tells all messages in one event: here each channel knows who hears it. */
function ioRedisChannels(client: IoRedisSubscriber, sharded: boolean): RedisChannels {
  const hearers = new Map<string, Set<Hear>>();
  client.on(sharded ? "smessage" : "message", (channel, message) => {
    for (const hear of hearers.get(channel) ?? []) hear(message);
  });
  return {
    subscribe: async (channel, hear) => {
      const known = hearers.get(channel) ?? new Set();
      hearers.set(channel, known.add(hear));
      await (sharded ? client.ssubscribe(channel) : client.subscribe(channel));
    },
    unsubscribe: async (channel, hear) => {
      const known = hearers.get(channel);
      known?.delete(hear);
      if (known === undefined || known.size > 0) return;
      hearers.delete(channel);
      await (sharded ? client.sunsubscribe(channel) : client.unsubscribe(channel));
    },
    close: () => undefined,
  };
}
