/** One way to send a command, whatever the client library, and scripts that reload themselves. */
import { createHash } from "node:crypto";
import { UnavailableError } from "../../core/errors.js";
import { knownRedis, type KnownRedis, type RedisArgument } from "./client.js";
import { isReply } from "./errors.js";

/**
 * A reply in the least that all libraries and protocol versions share. Maps come as flat arrays,
 * bytes as text, integers as numbers unless the client was told to make them text: scripts return
 * integers beyond 2^53 as text.
 */
export type RedisReply = string | number | null | readonly RedisReply[];

/** Sends commands. Rejects with what the library threw: see `explainRedis`. */
export interface RedisCommands {
  readonly isCluster: boolean;
  /** @param key any key of the command: on a cluster it says which node to ask */
  send(args: readonly RedisArgument[], key?: string): Promise<RedisReply>;
  /** Runs a Lua script by its digest, and loads it where the server does not know it. */
  evaluate(
    script: string,
    keys: readonly string[],
    args: readonly RedisArgument[],
  ): Promise<RedisReply>;
  /** The primaries, one for each part of the keys: itself, but on a cluster. */
  primaries(): Promise<readonly RedisCommands[]>;
}

/**
 * Commands through a client object.
 *
 * @throws TypeError for anything but a client of node-redis, ioredis or iovalkey.
 */
export function redisCommands(client: unknown, option = "client"): RedisCommands {
  const known = knownRedis(client, option);
  const send = sender(known);
  const commands: RedisCommands = {
    isCluster: known.kind.endsWith("-cluster"),
    send: (args, key) => send([...args], key).then(plain),
    // The way of every grant: an async function would take one turn more for it.
    evaluate: (script, keys, args) => {
      const count = String(keys.length);
      return send(["EVALSHA", digestOf(script), count, ...keys, ...args], keys[0]).then(
        plain,
        async (error: unknown) => {
          if (!isReply(error, "NOSCRIPT")) throw error;
          return plain(await send(["EVAL", script, count, ...keys, ...args], keys[0]));
        },
      );
    },
    primaries: async () => {
      const nodes = await primariesOf(known);
      return nodes === undefined ? [commands] : nodes.map((node) => redisCommands(node));
    },
  };
  return commands;
}

/** Never throws: what a library throws at once comes out as a rejection, too. */
type Send = (args: RedisArgument[], key: string | undefined) => Promise<unknown>;

/** A client may be set up to read bytes; nothing here wants them. */
const AS_TEXT = { typeMapping: {}, returnBuffers: false };

function sender(known: KnownRedis): Send {
  const send = senderOf(known);
  return (args, key) => {
    try {
      return send(args, key);
    } catch (error) {
      return Promise.reject(error);
    }
  };
}

function senderOf(known: KnownRedis): Send {
  switch (known.kind) {
    case "node-redis":
      return (args) => known.client.sendCommand(args, AS_TEXT);
    case "node-redis-cluster":
      return (args, key) => known.client.sendCommand(key, false, args, AS_TEXT);
    case "node-redis-sentinel":
      return (args) => known.client.sendCommand(false, args, AS_TEXT);
    case "ioredis":
    case "ioredis-cluster":
      return ([command, ...args]) => {
        // It answers a command after its end as it answers one whose reply was lost.
        if (known.client.status === "end") {
          throw new UnavailableError("the Redis client is closed", { retryable: false });
        }
        return known.client.call(String(command), args);
      };
  }
}

async function primariesOf(known: KnownRedis): Promise<readonly unknown[] | undefined> {
  if (known.kind === "ioredis-cluster") return known.client.nodes("master");
  if (known.kind !== "node-redis-cluster") return undefined;
  const { client } = known;
  return Promise.all(client.masters.map(async (node) => client.nodeClient(node)));
}

const digests = new Map<string, string>();

function digestOf(script: string): string {
  let digest = digests.get(script);
  if (digest === undefined) {
    digest = createHash("sha1").update(script).digest("hex");
    digests.set(script, digest);
  }
  return digest;
}

function plain(reply: unknown): RedisReply {
  if (typeof reply === "string" || typeof reply === "number") return reply;
  if (reply === null || reply === undefined) return null;
  if (Array.isArray(reply)) return reply.map(plain);
  if (reply instanceof Uint8Array) return Buffer.from(reply).toString("utf8");
  if (reply instanceof Map) return [...reply].flat().map(plain);
  if (reply instanceof Error) throw reply;
  if (typeof reply === "object") return Object.entries(reply).flat().map(plain);
  return typeof reply === "bigint" ? String(reply) : Number(reply);
}
