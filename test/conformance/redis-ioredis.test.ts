import { Redis } from "ioredis";
import { startRedis } from "../servers/redis.js";
import { redisSuite } from "./redis-subject.js";

redisSuite(
  "ioredis",
  async () => [await startRedis({ appendonly: "yes" })],
  ([server]) => new Redis(server!.port, { lazyConnect: true }),
);
