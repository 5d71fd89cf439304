/** Connections of our own, by URL or beside a caller's client. Only this file loads a library. */
import { ArgumentTypeError } from "../../core/errors.js";
import { redisChannels } from "./channels.js";
import { knownRedis, type KnownRedis, type RedisClient } from "./client.js";
import { redisCommands, type RedisCommands } from "./commands.js";
import type { RedisChannels } from "./contract.js";
import {
  duplicate,
  endsBySilence,
  IOREDIS_SETTINGS,
  pauseMs,
  PING_EVERY_MS,
  SILENT_MS,
} from "./duplicates.js";
import { explainConnecting } from "./errors.js";
import { goOn } from "./going-on.js";
import { MissingLibraryError } from "../missing-library.js";

/** Which client library. */
export type RedisLibrary = "redis" | "ioredis" | "iovalkey";

/**
 * A connection of our own, which connects again by itself. Commands sent while it is down fail at
 * once: one that waited in a queue could be carried out after its lease has ended.
 */
export interface RedisConnection {
  readonly commands: RedisCommands;
  /** Once it has subscribed to anything, a connection should send no commands. */
  readonly channels: RedisChannels;
  /**
   * Resolves once it is connected; rejects with an `UnavailableError` when the first try failed,
   * while others follow.
   */
  readonly connected: Promise<void>;
  /** Ends it at once, and with it what is under way. */
  close(): void;
}

/** How to open a connection. */
export interface OpenRedisOptions {
  /** Default: the first of `redis`, `ioredis` and `iovalkey` that is installed. */
  readonly library?: RedisLibrary;
  /** Longest that the caller waits for a connection. Default 5 s. A try ends after 10 s, too. */
  readonly withinMs?: number;
}

const INSTALL_LINE = "npm install redis";
const LIBRARIES: readonly RedisLibrary[] = ["redis", "ioredis", "iovalkey"];

const CONNECT_WITHIN_MS = 5_000;
/** Each try, and the loading of the library, ends before its caller gives up, who learns why. */
const OF_PATIENCE = 0.8;
const SHORTEST_TRY_MS = 500;
/** The libraries have one limit for the first try and all later ones, which nobody waits for. */
const LONGEST_TRY_MS = 10_000;
/**
 * A connection to the server that a URL names: `redis://` or, with TLS, `rediss://`.
 *
 * @throws TypeError for another URL; it may carry a password, so only its scheme is repeated.
 * @throws UnavailableError when no client library is installed.
 */
export async function openRedis(
  url: string,
  options: OpenRedisOptions = {},
): Promise<RedisConnection> {
  const { protocol } = checkUrl(url);
  const { library: chosen, withinMs = CONNECT_WITHIN_MS } = options;
  const tryMs = Math.min(LONGEST_TRY_MS, Math.round(OF_PATIENCE * withinMs));
  const connectTimeout = Math.max(SHORTEST_TRY_MS, tryMs);
  for (const library of chosen === undefined ? LIBRARIES : [chosen]) {
    const make = await load(library, connectTimeout);
    if (make !== undefined) return connection(knownRedis(make(url)), protocol === "rediss:");
  }
  const what = "a Redis URL needs a client library";
  throw new MissingLibraryError(what, INSTALL_LINE, { backend: "redis" });
}

/**
 * The commands of a caller's client, which stays the caller's, or of a connection of our own, once
 * it is there. `close` ends only what was opened here.
 *
 * @throws TypeError for anything else. UnavailableError without a client library; else what the
 *   library threw.
 */
export async function borrowRedis(
  target: string | RedisClient,
): Promise<{ readonly commands: RedisCommands; readonly close: () => void }> {
  if (typeof target !== "string") {
    return { commands: redisCommands(target, "target"), close: () => undefined };
  }
  const connection = await openRedis(target);
  try {
    await connection.connected;
  } catch (error) {
    connection.close();
    throw error;
  }
  return { commands: connection.commands, close: () => connection.close() };
}

/**
 * A connection of our own to where a caller's client is connected, made with its settings. The
 * client itself stays as it is, and the caller's.
 *
 * @throws TypeError for anything but a client of node-redis, ioredis or iovalkey.
 */
export function openBesideRedis(client: RedisClient): RedisConnection {
  const known = knownRedis(client);
  return connection(knownRedis(duplicate(known)), undefined, endsBySilence(known));
}

/** The checked URL. @throws TypeError that does not repeat it. */
export function checkUrl(url: string): URL {
  const must = "a URL such as redis://host:6379 or rediss://user:password@host:6379/0";
  let parsed: URL;
  try {
    parsed = new URL(url);
  } catch {
    throw new ArgumentTypeError("url", "redis:…", must);
  }
  if (!/^rediss?:$/.test(parsed.protocol) || parsed.hostname === "") {
    throw new ArgumentTypeError("url", `${parsed.protocol}…`, must);
  }
  return parsed;
}

type Make = (url: string) => unknown;

async function load(
  library: RedisLibrary,
  connectTimeout: number,
): Promise<Make | undefined> {
  try {
    if (library === "redis") {
      const { createClient } = await import("redis");
      return (url) =>
        createClient({
          url,
          disableOfflineQueue: true,
          pingInterval: PING_EVERY_MS,
          socket: {
            connectTimeout,
            socketTimeout: SILENT_MS,
            reconnectStrategy: pauseMs,
          },
        });
    }
    const settings = {
      ...IOREDIS_SETTINGS,
      connectTimeout,
      socketTimeout: SILENT_MS,
      retryStrategy: pauseMs,
    };
    if (library === "ioredis") {
      const { Redis } = await import("ioredis");
      return (url) => new Redis(url, settings);
    }
    const { Redis } = await import("iovalkey");
    return (url) => new Redis(url, settings);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ERR_MODULE_NOT_FOUND") return undefined;
    throw error;
  }
}

interface Connectable {
  connect(): Promise<unknown>;
  on(event: string, tell: (error: unknown) => void): unknown;
  destroy?(): void;
  disconnect(): unknown;
}

/**
 * @param withTls whether a URL asked for TLS; undefined beside a caller's client
 * @param goesOnAfterSilence whether it is for us to connect again after a silence
 */
function connection(
  own: KnownRedis,
  withTls?: boolean,
  goesOnAfterSilence = false,
): RedisConnection {
  const client = own.client as unknown as Connectable;
  let isClosed = false;
  if (own.kind === "ioredis" || own.kind === "ioredis-cluster") {
    goOn(client, { isClosed: () => isClosed, afterSilence: goesOnAfterSilence });
  }
  const connected = new Promise<void>((resolve, reject) => {
    const fail = (error: unknown): void =>
      reject(explainConnecting(error, withTls));
    // Without a listener the error of a broken connection would end the process.
    client.on("error", fail);
    client.connect().then(() => resolve(), fail);
  });
  // Whoever needs to know awaits it; the commands tell it, too.
  connected.catch(() => undefined);
  const channels = redisChannels(own);
  return {
    commands: redisCommands(own.client),
    channels,
    connected,
    close: () => {
      isClosed = true;
      channels.close();
      end(client);
    },
  };
}

function end(client: Connectable): void {
  try {
    if (typeof client.destroy === "function") client.destroy();
    else void Promise.resolve(client.disconnect()).catch(() => undefined);
  } catch {
    // It was never open, or is closed already: that is what was asked for.
  }
}
