/**
 * The part of the Redis client libraries that Tenure uses, recognised by its shape: node-redis
 * (client, cluster and sentinel), and ioredis with its fork iovalkey (client and cluster).
 */
import { ArgumentTypeError } from "../../core/errors.js";

/** What a command is made of. */
export type RedisArgument = string | Buffer;

/** The structural subset of a node-redis client. */
export interface NodeRedisClient {
  readonly isReady: boolean;
  sendCommand(args: RedisArgument[], options?: object): Promise<unknown>;
  duplicate(overrides?: object): unknown;
}

/** The structural subset of a node-redis cluster. */
export interface NodeRedisCluster {
  readonly masters: readonly object[];
  sendCommand(
    firstKey: string | undefined,
    isReadonly: boolean | undefined,
    args: RedisArgument[],
    options?: object,
  ): Promise<unknown>;
  nodeClient(node: object): unknown;
  duplicate(overrides?: object): unknown;
}

/** The structural subset of a node-redis sentinel, which follows the primary. */
export interface NodeRedisSentinel {
  readonly isReady: boolean;
  sendCommand(
    isReadonly: boolean | undefined,
    args: RedisArgument[],
    options?: object,
  ): Promise<unknown>;
  getMasterNode(): unknown;
  duplicate(overrides?: object): unknown;
}

/** The structural subset of an ioredis or iovalkey client. */
export interface IoRedisClient {
  readonly status: string;
  readonly isCluster: boolean;
  call(command: string, args: RedisArgument[]): Promise<unknown>;
  duplicate(overrides?: object): unknown;
}

/** The structural subset of an ioredis or iovalkey cluster. */
export interface IoRedisCluster {
  readonly status: string;
  readonly isCluster: boolean;
  call(command: string, args: RedisArgument[]): Promise<unknown>;
  nodes(role: "master"): readonly unknown[];
  duplicate(startupNodes?: [], overrides?: object): unknown;
}

/** A client object as a caller hands it over. */
export type RedisClient =
  | NodeRedisClient
  | NodeRedisCluster
  | NodeRedisSentinel
  | IoRedisClient
  | IoRedisCluster;

/** A client, told apart by its library and kind. */
export type KnownRedis =
  | { readonly kind: "node-redis"; readonly client: NodeRedisClient }
  | { readonly kind: "node-redis-cluster"; readonly client: NodeRedisCluster }
  | { readonly kind: "node-redis-sentinel"; readonly client: NodeRedisSentinel }
  | { readonly kind: "ioredis"; readonly client: IoRedisClient }
  | { readonly kind: "ioredis-cluster"; readonly client: IoRedisCluster };

/**
 * Which library and kind a client object is of.
 *
 * @throws TypeError for anything else.
 */
export function knownRedis(client: unknown, option = "client"): KnownRedis {
  if (has(client, ["call", "duplicate"]) && "status" in client) {
    return has(client, ["nodes"])
      ? { kind: "ioredis-cluster", client: client as unknown as IoRedisCluster }
      : { kind: "ioredis", client: client as unknown as IoRedisClient };
  }
  if (has(client, ["sendCommand", "duplicate"])) {
    if (has(client, ["nodeClient"])) {
      return { kind: "node-redis-cluster", client: client as unknown as NodeRedisCluster };
    }
    return has(client, ["getMasterNode"])
      ? { kind: "node-redis-sentinel", client: client as unknown as NodeRedisSentinel }
      : { kind: "node-redis", client: client as unknown as NodeRedisClient };
  }
  throw new ArgumentTypeError(option, client, "a client of node-redis, ioredis or iovalkey");
}

function has(value: unknown, methods: readonly string[]): value is object {
  if (typeof value !== "object" || value === null) return false;
  return methods.every((name) => typeof (value as Record<string, unknown>)[name] === "function");
}
