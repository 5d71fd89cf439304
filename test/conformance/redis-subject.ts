import { setTimeout as sleep } from "node:timers/promises";
import { afterAll } from "vitest";
import { Keys } from "../../src/backends/redis/keys.js";
import { redis, type RedisClient } from "../../src/backends/redis/open.js";
import { Tenure } from "../../src/core/tenure.js";
import { platform } from "../../src/platform/index.js";
import { runConformance } from "../../src/testing/conformance.js";
import { realTime, type Subject } from "../../src/testing/subject.js";
import { describeOn } from "../servers/find.js";
import { disposeAll, redisProgram, type RedisServer } from "../servers/redis.js";
import { vitestRunner } from "./vitest-runner.js";

/** Sockets and timers that keep the process alive; not the tail of a request that was answered. */
const handles = (): number =>
  process.getActiveResourcesInfo().filter((kind) => /Wrap|Timeout|Immediate/.test(kind)).length;

const keys = new Keys("tenure:");

/** The redis backend on running servers; the cases of one file run one after the other. */
function subject(servers: readonly RedisServer[], client: () => RedisClient): Subject {
  const onAll = async (...args: readonly string[]): Promise<void> => {
    await Promise.all(servers.map((server) => server.command(...args)));
  };
  /** Sends to the node that has the key: the others answer MOVED. */
  const toOwner = async (...args: readonly string[]): Promise<void> => {
    const tries = await Promise.allSettled(servers.map((server) => server.command(...args)));
    if (!tries.some(({ status }) => status === "fulfilled")) throw new Error(String(args));
  };
  return {
    time: realTime(sleep),
    connect: (backend) => Tenure.open(backend, platform(), { purpose: "efficiency" }),
    shortTtlMs: 200,
    async open() {
      await onAll("FLUSHALL");
      const handlesBefore = handles();
      return {
        connect: async () => redis(client()),
        ...(servers.length > 1
          ? {}
          : { restart: async () => servers[0]!.restart() }),
        deleteRecord: (name) => toOwner("DEL", keys.lease(name)),
        // What the server itself does with the key of a name, a day after its last lease.
        sweep: () => onAll("FLUSHALL"),
        presetToken: (name, token) => toOwner("HSET", keys.lease(name), "t", String(token)),
        openHandles: () => handles() - handlesBefore,
      };
    },
  };
}

/** The suite over one client library; a file for each, since they take their time. */
export function redisSuite(
  title: string,
  start: () => Promise<readonly RedisServer[]>,
  client: (servers: readonly RedisServer[]) => RedisClient,
): void {
  describeOn(redisProgram, title, async () => {
    const servers = await start();
    afterAll(() => disposeAll(servers));
    await runConformance(
      subject(servers, () => client(servers)),
      vitestRunner("redis"),
    );
  });
}
