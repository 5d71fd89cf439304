import { Cluster } from "ioredis";
import { startRedisCluster } from "../servers/redis.js";
import { redisSuite } from "./redis-subject.js";

redisSuite("ioredis cluster", startRedisCluster, (servers) => {
  const hosts = servers.map(({ port }) => ({ host: "127.0.0.1", port }));
  return new Cluster(hosts, { lazyConnect: true });
});
