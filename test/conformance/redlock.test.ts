import { setTimeout as sleep } from "node:timers/promises";
import { Redis } from "ioredis";
import { createClient } from "redis";
import { afterAll } from "vitest";
import { redlock, type RedisClient } from "../../src/backends/redlock/open.js";
import { Tenure } from "../../src/core/tenure.js";
import { platform } from "../../src/platform/index.js";
import { runConformance } from "../../src/testing/conformance.js";
import { realTime, type Subject } from "../../src/testing/subject.js";
import { describeOn } from "../servers/find.js";
import {
  disposeAll,
  redisProgram,
  startRedisServers,
  type RedisServer,
} from "../servers/redis.js";
import { vitestRunner } from "./vitest-runner.js";

/** Sockets and timers that keep the process alive; not the tail of a request that was answered. */
const handles = (): number =>
  process.getActiveResourcesInfo().filter((kind) => /Wrap|Timeout|Immediate/.test(kind)).length;

/** The redlock backend on running servers; the cases of one file run one after the other. */
function subject(
  servers: readonly RedisServer[],
  client: (server: RedisServer) => RedisClient,
): Subject {
  const onAll = (...args: readonly string[]): Promise<unknown> =>
    Promise.all(servers.map((server) => server.command(...args)));
  return {
    time: realTime(sleep),
    connect: (backend) => Tenure.open(backend, platform(), { purpose: "efficiency" }),
    shortTtlMs: 200,
    async open() {
      await onAll("FLUSHALL");
      const handlesBefore = handles();
      return {
        connect: async () => redlock(servers.map(client)),
        restart: async () => {
          await Promise.all(servers.map((server) => server.restart()));
        },
        deleteRecord: async (name) => void (await onAll("DEL", `tenure:redlock:lock:${name}`)),
        // Redis drops expired keys bit by bit, and those that are looked at.
        sweep: async () => void (await onAll("KEYS", "*")),
        openHandles: () => handles() - handlesBefore,
      };
    },
  };
}

function suite(
  title: string,
  count: number,
  client: (server: RedisServer) => RedisClient,
): void {
  describeOn(redisProgram, title, async () => {
    const servers = await startRedisServers(count, { appendonly: "yes" });
    afterAll(() => disposeAll(servers));
    await runConformance(subject(servers, client), vitestRunner("redlock"));
  });
}

suite("3 servers, node-redis", 3, ({ url }) => createClient({ url }));
suite("5 servers, ioredis", 5, ({ port }) => new Redis(port, { lazyConnect: true }));
