/** What the tests of the redis backend share: servers and clients, closed after each test. */
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { createClient } from "redis";
import { afterEach, expect, onTestFinished } from "vitest";
import { Keys } from "../../../src/backends/redis/keys.js";
import { lineScripts } from "../../../src/backends/redis/line-scripts.js";
import { redis, type RedisClient, type RedisSettings } from "../../../src/backends/redis/open.js";
import type { Backend, Call, Grant } from "../../../src/core/backend.js";
import type { TenureEvent } from "../../../src/core/events.js";
import type { Runtime } from "../../../src/core/runtime.js";
import type { TenureOptions } from "../../../src/core/tenure-options.js";
import { Tenure } from "../../../src/core/tenure.js";
import { platform } from "../../../src/platform/index.js";
import { faultProxy, type FaultProxy } from "../../../src/testing/fault-proxy.js";
import type { RedisServer } from "../../servers/redis.js";

/** Longest that a call or a connection may take where nothing is said of it, milliseconds. */
const PATIENT_MS = 30_000;

export const call: Call = { timeoutMs: PATIENT_MS, signal: new AbortController().signal };

/** A client library by name. */
export type Library = "node-redis" | "ioredis";
export const libraries: readonly Library[] = ["node-redis", "ioredis"];

/** A client that stays unconnected: the backend connects beside it, with as much patience. */
export function client(port: number, library: Library = "ioredis"): RedisClient {
  if (library === "ioredis") {
    return new Redis(port, { lazyConnect: true, connectTimeout: PATIENT_MS });
  }
  return createClient({
    url: `redis://127.0.0.1:${port}`,
    socket: { connectTimeout: PATIENT_MS },
  });
}

/** Keeps everything that a test opens, and closes it after the test. */
export interface Bench {
  server<S extends RedisServer>(starting: Promise<S>): Promise<S>;
  proxy(port: number): Promise<FaultProxy>;
  backend(port: number, settings?: RedisSettings & { library?: Library }): Promise<Backend>;
  tenure(
    port: number,
    settings?: RedisSettings & TenureOptions & { library?: Library },
  ): Promise<Tenure>;
  /** Events of everything opened so far in this test. */
  readonly events: TenureEvent[];
}

export function bench(): Bench {
  const open: (() => unknown)[] = [];
  const events: TenureEvent[] = [];
  afterEach(async () => {
    events.length = 0;
    // Clients before their servers: they give back what they hold.
    for (const close of open.splice(0).reverse()) {
      await Promise.race([Promise.resolve(close()).catch(() => undefined), sleep(3_000)]);
    }
  });
  const runtime: Runtime = {
    ...platform(),
    events: { wants: () => true, publish: (event) => void events.push(event) },
  };
  const connect = (
    port: number,
    { library, prefix, fair, replicas, storeId }: RedisSettings & { library?: Library } = {},
  ): Backend =>
    redis(client(port, library), {
      runtime,
      ...(prefix === undefined ? {} : { prefix }),
      ...(fair === undefined ? {} : { fair }),
      ...(replicas === undefined ? {} : { replicas }),
      ...(storeId === undefined ? {} : { storeId }),
    });
  return {
    events,
    server: async (starting) => {
      const server = await starting;
      open.push(() => server.dispose());
      return server;
    },
    proxy: async (port) => {
      const proxy = await faultProxy({ port, sleep });
      open.push(() => proxy.close());
      return proxy;
    },
    backend: async (port, settings) => {
      const backend = connect(port, settings);
      await backend.open!(call);
      open.push(() => backend.close());
      return backend;
    },
    tenure: async (port, settings) => {
      const options = { timeout: PATIENT_MS, ...settings };
      const tenure = await Tenure.open(connect(port, settings), runtime, options);
      open.push(() => tenure.close());
      return tenure;
    },
  };
}

/** Resolves once `isSo`; rejects when that takes so long that it never will. */
export async function until(
  what: string,
  isSo: () => boolean | Promise<boolean>,
  limitMs = 30_000,
): Promise<void> {
  for (const from = performance.now(); performance.now() - from < limitMs; ) {
    if (await isSo()) return;
    await sleep(5);
  }
  throw new Error(`waited ${limitMs} ms for ${what}`);
}

/** The most that one pause of this process counts, milliseconds. */
const MOST_PER_TICK_MS = 50;

/**
 * Time in which this process ran since the call, milliseconds: for bounds from above, which say
 * nothing of the store while the process that looks stands still.
 */
export function running(): () => number {
  let [ranMs, lastMs] = [0, performance.now()];
  const tick = (): number => {
    const nowMs = performance.now();
    ranMs += Math.min(nowMs - lastMs, MOST_PER_TICK_MS);
    lastMs = nowMs;
    return ranMs;
  };
  const timer = setInterval(tick, 5);
  onTestFinished(() => clearInterval(timer));
  return tick;
}

/** KEYS lease: lets its holder's time begin in an hour. */
const STAND_STILL = `
local raw = redis.call('HGETALL', KEYS[1])
for i = 1, #raw, 2 do
  local since, rest = string.match(raw[i + 1], '^(%d+)( .*)$')
  if rest then
    redis.call('HSET', KEYS[1], raw[i], string.format('%.0f', since + 3.6e9) .. rest)
    return 1
  end
end
`;

/** Releases a lease that somebody waits for, and lets the offer stand for an hour at once. */
export async function releaseToStandingOffer(
  port: number,
  { name, holder, token }: Grant,
): Promise<void> {
  const raw = new Redis(port);
  const [lease, line, waiters] = new Keys("tenure:").ofQueue(name);
  const replies = await raw
    .multi()
    .eval(lineScripts(false).release, 3, lease, line, waiters, holder, `${token}`, "any")
    .eval(STAND_STILL, 1, lease)
    .exec();
  raw.disconnect();
  expect(replies).toEqual([[null, 1], [null, 1]]);
}

/** How many wait for a name, by the store's account. */
export async function waitersOf(tenure: Tenure, name: string): Promise<number> {
  return (await tenure.inspect(name))?.waiters ?? 0;
}
