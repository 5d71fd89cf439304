import { createCluster } from "redis";
import { startRedisCluster } from "../servers/redis.js";
import { redisSuite } from "./redis-subject.js";

redisSuite("node-redis cluster", startRedisCluster, (servers) =>
  createCluster({ rootNodes: servers.map(({ url }) => ({ url })) }),
);
