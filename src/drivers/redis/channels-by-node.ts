/**
 * Sharded channels on a cluster client that sends `SSUBSCRIBE` to any node: iovalkey 0.4, and
 * ioredis before it had `shardedSubscribers`. A node without the channel's slot refuses it.
 *
 * So each primary gets a connection of its own when it is first needed, and is asked in turn. When
 * a node goes, its channels are looked for on the others once; a notice may be lost meanwhile, as
 * with every way of being told.
 */
import type { RedisChannels } from "./contract.js";

type Hear = (message: string) => void;

interface Subscriber {
  connect(): Promise<unknown>;
  disconnect(): void;
  ssubscribe(channel: string): Promise<unknown>;
  sunsubscribe(channel: string): Promise<unknown>;
  on(event: "smessage", tell: (channel: string, message: string) => void): unknown;
  on(event: "error" | "close", tell: () => void): unknown;
}

interface Node {
  readonly options: { readonly host?: string; readonly port?: number };
  duplicate(overrides: object): Subscriber;
}

/** A cluster client of the ioredis kind, as far as it is used here. */
export interface ClusterOfNodes {
  nodes(role: "master"): readonly Node[];
}

interface Place {
  readonly subscriber: Subscriber;
  readonly ready: Promise<unknown>;
}

/** Channels over one connection to each node. */
export function channelsByNode(cluster: ClusterOfNodes): RedisChannels {
  const places = new Map<string, Place>();
  const homes = new Map<string, string>();
  const hearers = new Map<string, Set<Hear>>();

  function leave(key: string): void {
    const place = places.get(key);
    if (place === undefined) return;
    places.delete(key);
    place.subscriber.disconnect();
    const lost = [...homes].filter(([, home]) => home === key).map(([channel]) => channel);
    for (const channel of lost) {
      homes.delete(channel);
      // Where no other node has it, the next subscriber looks again.
      settle(channel).catch(() => undefined);
    }
  }

  function placeOf(key: string, node: Node): Place {
    const known = places.get(key);
    if (known !== undefined) return known;
    const subscriber = node.duplicate({ lazyConnect: true, retryStrategy: null });
    subscriber.on("error", () => undefined);
    subscriber.on("close", () => leave(key));
    subscriber.on("smessage", (channel, message) => {
      for (const hear of hearers.get(channel) ?? []) hear(message);
    });
    const place = { subscriber, ready: subscriber.connect() };
    places.set(key, place);
    return place;
  }

  async function settle(channel: string): Promise<void> {
    let failure: unknown = new Error("the cluster has no primary");
    for (const node of cluster.nodes("master")) {
      const key = `${node.options.host}:${node.options.port}`;
      const { subscriber, ready } = placeOf(key, node);
      try {
        await ready;
        await subscriber.ssubscribe(channel);
        homes.set(channel, key);
        return;
      } catch (error) {
        failure = error;
      }
    }
    throw failure;
  }

  return {
    subscribe: async (channel, hear) => {
      const known = hearers.get(channel) ?? new Set();
      hearers.set(channel, known.add(hear));
      if (!homes.has(channel)) await settle(channel);
    },
    unsubscribe: async (channel, hear) => {
      const known = hearers.get(channel);
      known?.delete(hear);
      if (known === undefined || known.size > 0) return;
      hearers.delete(channel);
      const home = homes.get(channel);
      homes.delete(channel);
      if (home !== undefined) await places.get(home)?.subscriber.sunsubscribe(channel);
    },
    close: () => {
      homes.clear();
      for (const { subscriber } of places.values()) subscriber.disconnect();
      places.clear();
    },
  };
}
