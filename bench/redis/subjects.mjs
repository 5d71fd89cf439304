/**
 * Locks on one Redis server, all behind one shape: `pair(name)` takes a free lock and gives it
 * back, `enter(name)` waits for one and answers what gives it back.
 *
 * Peers keep their own settings for waiting; only their patience is made endless.
 */
import { Redlock as SesamecareRedlock } from "@sesamecare-oss/redlock";
import { Redis } from "ioredis";
import { createClient } from "redis";
import { Mutex } from "redis-semaphore";
import Redlock from "redlock";
import { createLock, IoredisAdapter } from "redlock-universal";
import { connect } from "tenure";
import { redis } from "tenure/backends/redis";
import { versionOf } from "../figures.mjs";

const TTL_MS = 30_000;
const VALUE = "0f8fad5b-d9cb-469f-a165-70867728950e";

const withIoredis = async (port, options = {}) => {
  const client = new Redis(port, "127.0.0.1", { lazyConnect: true, ...options });
  await client.connect();
  return client;
};

const withNodeRedis = async (port) => createClient({ url: `redis://127.0.0.1:${port}` }).connect();

const rawIoredis = async (port, options) => {
  const client = await withIoredis(port, options);
  return {
    async pair(name) {
      await client.set(name, VALUE, "PX", TTL_MS, "NX");
      await client.del(name);
    },
    close: () => client.disconnect(),
  };
};

/** One tenure with connections of its own, made after the settings of a client. */
async function withTenure(client, end) {
  const tenure = await connect(redis(client));
  return {
    async pair(name) {
      const lease = await tenure.tryAcquire(name);
      await lease.release();
    },
    async enter(name) {
      const lease = await tenure.acquire(name);
      return () => lease.release();
    },
    async close() {
      await tenure.close();
      end();
    },
  };
}

/** A peer that is made per client, or per lock; `acquire` answers what gives back. */
async function peer(port, make) {
  const client = await withIoredis(port);
  const acquire = make(client);
  return {
    pair: async (name) => (await acquire(name))(),
    enter: acquire,
    close: () => client.disconnect(),
  };
}

const redlockLike = (Kind) => (client) => {
  const locks = new Kind([client], { retryCount: -1 });
  locks.on("error", () => undefined);
  return async (name) => {
    const lock = await locks.acquire([name], TTL_MS);
    return () => lock.release();
  };
};

/** Makers by name; each opens connections of its own to the server on a port. */
export const raw = {
  "raw ioredis": (port) => rawIoredis(port),
  "raw ioredis, auto-pipelining": (port) => rawIoredis(port, { enableAutoPipelining: true }),
  "raw node-redis": async (port) => {
    const client = await withNodeRedis(port);
    return {
      async pair(name) {
        await client.set(name, VALUE, {
          condition: "NX",
          expiration: { type: "PX", value: TTL_MS },
        });
        await client.del(name);
      },
      close: () => client.destroy(),
    };
  },
};

export const ours = {
  "Tenure, ioredis": async (port) => {
    const client = await withIoredis(port);
    return withTenure(client, () => client.disconnect());
  },
  "Tenure, node-redis": async (port) => {
    const client = await withNodeRedis(port);
    return withTenure(client, () => client.destroy());
  },
};

export const peers = {
  redlock: (port) => peer(port, redlockLike(Redlock)),
  "@sesamecare-oss/redlock": (port) => peer(port, redlockLike(SesamecareRedlock)),
  "redlock-universal": (port) =>
    peer(port, (client) => {
      const adapter = new IoredisAdapter(client);
      return async (key) => {
        const retryAttempts = Number.MAX_SAFE_INTEGER;
        const lock = createLock({ adapter, key, ttl: TTL_MS, retryAttempts });
        const handle = await lock.acquire();
        return () => lock.release(handle);
      };
    }),
  "redis-semaphore": (port) =>
    peer(port, (client) => async (name) => {
      const mutex = new Mutex(client, name, { lockTimeout: TTL_MS, acquireTimeout: 600_000 });
      await mutex.acquire();
      return () => mutex.release();
    }),
};

/** Every client of the in-process mutex, which no lock over a network can beat. */
export function mutexClients() {
  const waiting = [];
  let isHeld = false;
  const leave = async () => {
    const next = waiting.shift();
    if (next === undefined) isHeld = false;
    else next();
  };
  return {
    async enter() {
      if (isHeld) await new Promise((resume) => waiting.push(resume));
      isHeld = true;
      return leave;
    },
    close: () => undefined,
  };
}

export const versions = ["ioredis", "redis", ...Object.keys(peers)].map(
  (name) => `${name} ${versionOf(name)}`,
);
