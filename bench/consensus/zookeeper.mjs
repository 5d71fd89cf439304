/** One ZooKeeper with what is compared on it: one server, on the disk of the machine. */
import { once } from "node:events";
import zookeeperClient from "node-zookeeper-client";
import { connect } from "tenure";
import { versionOf } from "../figures.mjs";
import { load } from "../sql/servers.mjs";

const { createClient, CreateMode } = zookeeperClient;
const TTL_S = 30;
const VALUE = Buffer.from(JSON.stringify({ holder: "0f8fad5b-d9cb-469f-a165-70867728950e" }));

const promised = (call) =>
  new Promise((resolve, reject) => {
    call((error, value) => (error ? reject(error) : resolve(value)));
  });

/** The most used client of Node, connected. */
async function rawClient(port) {
  const client = createClient(`127.0.0.1:${port}`, { sessionTimeout: TTL_S * 1_000 });
  client.connect();
  await once(client, "connected");
  return {
    create: (path, mode) => promised((done) => client.create(path, VALUE, mode, done)),
    set: (path) => promised((done) => client.setData(path, VALUE, done)),
    remove: (path) => promised((done) => client.remove(path, -1, done)),
    close: () => client.close(),
  };
}

async function start() {
  const { startZookeeper } = await load("zookeeper");
  // Commits reach the disk before they are answered, as they do by default.
  const server = await startZookeeper({}, { "zookeeper.forceSync": "yes" });
  const raw = await rawClient(server.port);
  await raw.create("/commit", CreateMode.PERSISTENT);
  return {
    port: server.port,
    url: server.url,
    /** One commit, for scale. */
    commit: () => raw.set("/commit"),
    /** Packets that it has been sent so far, pings of sessions among them. */
    async requests() {
      const count = /^zk_packets_received\s+(\d+)/m.exec(await server.ask("mntr"))?.[1];
      return new Map([["packets received", Number(count)]]);
    },
    stop: async () => {
      raw.close();
      await server.dispose();
    },
  };
}

/** A node of the session made and removed: whom it keeps out is not looked at. */
async function rawNodes({ port }) {
  const raw = await rawClient(port);
  return {
    async pair() {
      await raw.remove(await raw.create("/raw-", CreateMode.EPHEMERAL_SEQUENTIAL));
    },
    close: () => raw.close(),
  };
}

async function ours({ url }) {
  const tenure = await connect(url);
  return {
    async pair() {
      await (await tenure.tryAcquire("bench:pair", { ttl: TTL_S * 1_000 })).release();
    },
    enter: async (name) => {
      const lease = await tenure.acquire(name, { ttl: TTL_S * 1_000 });
      return () => lease.release();
    },
    hold: (name) => tenure.acquire(name, { ttl: TTL_S * 1_000 }),
    close: () => tenure.close(),
  };
}

/** What the parts of this benchmark need of a store. */
export const zookeeper = {
  name: "zookeeper",
  versions: ["ZooKeeper of Debian", `node-zookeeper-client ${versionOf("node-zookeeper-client")}`],
  start,
  /** The first is what the ratios are taken to. */
  pairs: { "raw create and remove, node-zookeeper-client": rawNodes, Tenure: ours },
  ours,
};
