import { createClient } from "redis";
import { startRedis } from "../servers/redis.js";
import { redisSuite } from "./redis-subject.js";

redisSuite(
  "node-redis",
  async () => [await startRedis({ appendonly: "yes" })],
  ([server]) => createClient({ url: server!.url }),
);
