/** What the tests of the redis backend share: servers and clients, closed after each test. */
import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { createClient } from "redis";
import { afterEach } from "vitest";
import { redis, type RedisClient, type RedisSettings } from "../../../src/backends/redis/open.js";
import type { Backend, Call } from "../../../src/core/backend.js";
import type { TenureEvent } from "../../../src/core/events.js";
import type { Runtime } from "../../../src/core/runtime.js";
import { Tenure, type TenureOptions } from "../../../src/core/tenure.js";
import { platform } from "../../../src/platform/index.js";
import { faultProxy, type FaultProxy } from "../../../src/testing/fault-proxy.js";
import type { RedisServer } from "../../servers/redis.js";

export const call: Call = { timeoutMs: 5_000, signal: new AbortController().signal };

/** A client library by name. */
export type Library = "node-redis" | "ioredis";
export const libraries: readonly Library[] = ["node-redis", "ioredis"];

/** A client that stays unconnected: the backend connects beside it. */
export function client(port: number, library: Library = "ioredis"): RedisClient {
  return library === "ioredis"
    ? new Redis(port, { lazyConnect: true })
    : createClient({ url: `redis://127.0.0.1:${port}` });
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
      const tenure = await Tenure.open(connect(port, settings), runtime, settings);
      open.push(() => tenure.close());
      return tenure;
    },
  };
}

/** Resolves once `isSo`; rejects when that takes longer than `limitMs`. */
export async function until(
  what: string,
  isSo: () => boolean | Promise<boolean>,
  limitMs = 5_000,
): Promise<void> {
  for (const from = performance.now(); performance.now() - from < limitMs; ) {
    if (await isSo()) return;
    await sleep(5);
  }
  throw new Error(`waited ${limitMs} ms for ${what}`);
}

/** How many wait for a name, by the store's account. */
export async function waitersOf(tenure: Tenure, name: string): Promise<number> {
  return (await tenure.inspect(name))?.waiters ?? 0;
}
