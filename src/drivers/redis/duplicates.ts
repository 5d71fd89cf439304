/** Settings of connections beside a caller's client: the client's own, and what Tenure needs. */
import type { KnownRedis, NodeRedisSentinel } from "./client.js";
import { className } from "./errors.js";

/** A connection that brings nothing for so long is given up, although nobody has closed it. */
export const SILENT_MS = 10_000;
/** Two pings, and one that is late, before silence is taken for an end. */
const PINGS_OF_SILENCE = 0.4;
export const PING_EVERY_MS: number = PINGS_OF_SILENCE * SILENT_MS;
const LONGEST_PAUSE_MS = 1_000;

/** Grows with the number of failures; the library adds no jitter of its own to it. */
export const pauseMs = (failures: number): number => Math.min(LONGEST_PAUSE_MS, 25 * 2 ** failures);

export const IOREDIS_SETTINGS = {
  lazyConnect: true,
  enableOfflineQueue: false,
  autoResendUnfulfilledCommands: false,
  // With 0, commands under way are rejected when their connection breaks. With null they were seen
  // never to settle, with the default they are sent again on the next connection.
  maxRetriesPerRequest: 0,
  // A server that does not answer does not confirm the end of the connection either.
  disconnectTimeout: 100,
  // A primary that is frozen hangs up on nobody: where there are sentinels, they tell.
  failoverDetector: true,
};

type Strategy = (failures: number, cause: unknown) => number | false | Error;

/** Settings that a client was made with, as far as they are looked at here. */
interface Settings {
  readonly pingInterval?: number | undefined;
  readonly socket?: {
    readonly socketTimeout?: number | undefined;
    readonly reconnectStrategy?: Strategy | number | false | undefined;
  };
  readonly socketTimeout?: number | undefined;
  readonly redisOptions?: Settings;
}

/**
 * The libraries merge overrides with the settings of a client, and some of them not those within
 * settings: without the others the password would be gone.
 */
export function duplicate(known: KnownRedis): unknown {
  switch (known.kind) {
    case "node-redis":
      return known.client.duplicate(nodeRedisSettings(settingsOf(known.client, "options")));
    case "node-redis-cluster": {
      const { defaults } = settingsOf(known.client, "_options") as { defaults?: Settings };
      return known.client.duplicate({ defaults: { ...defaults, ...nodeRedisSettings(defaults) } });
    }
    case "node-redis-sentinel":
      return known.client.duplicate(sentinelSettings(known.client));
    case "ioredis":
      return known.client.duplicate(ioRedisSettings(settingsOf(known.client, "options")));
    case "ioredis-cluster": {
      const { redisOptions } = settingsOf(known.client, "options");
      return known.client.duplicate([], {
        lazyConnect: true,
        enableOfflineQueue: false,
        shardedSubscribers: true,
        redisOptions: { ...redisOptions, ...ioRedisSettings(redisOptions) },
      });
    }
  }
}

function settingsOf(client: object, field: "options" | "_options"): Settings {
  return (client as { readonly [field in typeof field]?: Settings })[field] ?? {};
}

/**
 * A silent connection is given up also where the caller says nothing of it. The library means one
 * that is idle, so it is asked often enough; and by itself the library does not connect again after
 * its own time-out.
 */
function nodeRedisSettings({ pingInterval, socket = {} }: Settings = {}): object {
  const { socketTimeout = SILENT_MS, reconnectStrategy = pauseMs } = socket;
  const isOurs = socket.socketTimeout === undefined;
  return {
    disableOfflineQueue: true,
    pingInterval:
      socketTimeout > 0
        ? Math.min(pingInterval || PING_EVERY_MS, PINGS_OF_SILENCE * socketTimeout)
        : (pingInterval ?? PING_EVERY_MS),
    socket: {
      ...socket,
      socketTimeout,
      reconnectStrategy: isOurs ? afterSilence(reconnectStrategy) : reconnectStrategy,
    },
  };
}

/**
 * A caller's strategy, which knows nothing of a time-out that is not the caller's: once there was
 * one, it ends the connection no more. The tries that follow fail for other reasons, and the
 * library does not say which was the first to succeed.
 */
function afterSilence(strategy: Strategy | number | false): Strategy {
  let wasSilent = false;
  return (failures, cause) => {
    const isSilent = className(cause) === "SocketTimeoutError";
    wasSilent ||= isSilent;
    if (isSilent) return pauseMs(failures);
    const said = typeof strategy === "function" ? strategy(failures, cause) : strategy;
    return wasSilent && typeof said !== "number" ? pauseMs(failures) : said;
  };
}

function ioRedisSettings({ socketTimeout = SILENT_MS }: Settings = {}): object {
  return { ...IOREDIS_SETTINGS, socketTimeout };
}

/** Whether a connection beside this client ends by a time-out that the client has not. */
export function endsBySilence(known: KnownRedis): boolean {
  if (known.kind === "ioredis") {
    return settingsOf(known.client, "options").socketTimeout === undefined;
  }
  if (known.kind !== "ioredis-cluster") return false;
  return settingsOf(known.client, "options").redisOptions?.socketTimeout === undefined;
}

/** Settings that a sentinel was made with: of its connections to servers, and to sentinels. */
interface SentinelSettings {
  readonly nodeClientOptions?: Settings;
  readonly sentinelClientOptions?: Settings;
}

/** To a sentinel the library connects once, and asks another one when that connection ends. */
function sentinelSettings(client: NodeRedisSentinel): object {
  const said = saidToSentinel(client);
  if (said === undefined) return {};
  const { nodeClientOptions, sentinelClientOptions } = said;
  const { pingInterval, socket } = nodeRedisSettings(sentinelClientOptions) as Settings;
  return {
    nodeClientOptions: { ...nodeClientOptions, ...nodeRedisSettings(nodeClientOptions) },
    sentinelClientOptions: { ...sentinelClientOptions, pingInterval, socket },
  };
}

/**
 * What a sentinel was made with, which the library shows nobody; undefined where it is another than
 * we know (seen with 5 and 6). Its `duplicate` hands all of it to the constructor of whatever it is
 * called on, and what stands in `overrides` would replace the password as well.
 */
function saidToSentinel(client: NodeRedisSentinel): SentinelSettings | undefined {
  let said: SentinelSettings | undefined;
  function Hearing(settings: SentinelSettings): void {
    said = settings;
  }
  const { _self, commandOptions } = client as unknown as Readonly<Record<string, unknown>>;
  const hearing: unknown = Object.create(
    { constructor: Hearing },
    { _self: { value: _self }, commandOptions: { value: commandOptions } },
  );
  try {
    const known = Object.getPrototypeOf(_self) as NodeRedisSentinel;
    known.duplicate.call(hearing);
  } catch {
    // Another implementation: its connections are as the caller's client has them.
    return undefined;
  }
  return said;
}
