/** How a store of each kind is opened by its URL. Apart from the servers: children use it, too. */
import { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { consul } from "../../../src/backends/consul/open.js";
import { dynamodb } from "../../../src/backends/dynamodb/open.js";
import { etcd } from "../../../src/backends/etcd/open.js";
import { mysql } from "../../../src/backends/mysql/open.js";
import { postgres } from "../../../src/backends/postgres/open.js";
import { redis } from "../../../src/backends/redis/open.js";
import { sqlite } from "../../../src/backends/sqlite/open.js";
import { zookeeper } from "../../../src/backends/zookeeper/open.js";
import type { Backend } from "../../../src/core/backend.js";

/** A kind of store. */
export type Kind =
  | "sqlite" | "redis" | "postgres" | "mysql" | "etcd" | "zookeeper" | "dynamodb" | "consul";

type Open = (url: string) => Backend | Promise<Backend>;

/** By the title of the store. */
export const BACKENDS: Readonly<Record<Kind, Open>> = {
  sqlite: (file) => sqlite(file),
  redis: (url) => redis(url),
  postgres: (url) => postgres(url),
  mysql: (url) => mysql(url),
  etcd: (url) => etcd(url),
  zookeeper: (url) => zookeeper(url),
  dynamodb: dynamodbOn,
  consul: (url) => consul(url, { lockDelay: 0, minTtl: "200ms" }),
};

function dynamodbOn(url: string): Backend {
  const { origin: endpoint, pathname } = new URL(url);
  const credentials = { accessKeyId: "test", secretAccessKey: "test" };
  const client = new DynamoDBClient({ endpoint, region: "eu-west-1", credentials });
  return dynamodb({ client, table: pathname.slice(1) });
}
