/** One etcd with what is compared on it: one member, on the disk of the machine. */
import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { Agent, request } from "node:http";
import { createServer } from "node:net";
import { once } from "node:events";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Etcd3 } from "etcd3";
import { connect } from "tenure";
import { sleep, versionOf } from "../figures.mjs";

const BINARY = "etcd";
const READY_WITHIN_MS = 10_000;
const TTL_S = 30;

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

/** The least that speaks to the gateway: one request on a connection that is kept. */
function gateway(port) {
  const agent = new Agent({ keepAlive: true });
  const ask = (path, body) =>
    new Promise((resolve, reject) => {
      const text = JSON.stringify(body);
      const sent = request(
        { port, agent, path: `/v3/${path}`, method: "POST", host: "127.0.0.1" },
        (answer) => {
          let got = "";
          answer.setEncoding("utf8").on("data", (part) => (got += part));
          answer.on("end", () => resolve(JSON.parse(got)));
        },
      );
      sent.on("error", reject);
      sent.setHeader("Content-Length", Buffer.byteLength(text));
      sent.end(text);
    });
  return { ask, close: () => agent.destroy() };
}

const base64 = (text) => Buffer.from(text).toString("base64");
const VALUE = base64(JSON.stringify({ holder: "0f8fad5b-d9cb-469f-a165-70867728950e" }));

async function start() {
  const [port, peer] = [await freePort(), await freePort()];
  const folder = mkdtempSync(join(tmpdir(), "tenure-bench-etcd-"));
  const [client, others] = [port, peer].map((one) => `http://127.0.0.1:${one}`);
  const flags = {
    ...{ "data-dir": join(folder, "data"), name: "one", "initial-cluster": `one=${others}` },
    ...{ "listen-client-urls": client, "advertise-client-urls": client },
    ...{ "listen-peer-urls": others, "initial-advertise-peer-urls": others },
  };
  const args = Object.entries(flags).map(([flag, value]) => `--${flag}=${value}`);
  const child = spawn(BINARY, args, { stdio: "ignore" });
  const end = () => {
    child.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  };
  process.once("exit", end);
  const { ask, close } = gateway(port);
  const isUp = () => ask("maintenance/status", {}).then(({ leader = "0" }) => leader !== "0");
  for (let waitedMs = 0; !(await isUp().catch(() => false)); waitedMs += 50) {
    if (waitedMs > READY_WITHIN_MS) throw new Error(`${BINARY} is not ready`);
    await sleep(50);
  }
  return {
    port,
    url: `etcd://127.0.0.1:${port}`,
    /** One commit, for scale. */
    commit: () => ask("kv/put", { key: base64("bench:commit"), value: VALUE }),
    /** Forgets the history, as clusters do every few minutes where they are told to. */
    async compact() {
      const { header } = await ask("kv/put", { key: base64("bench:commit"), value: VALUE });
      await ask("kv/compaction", { revision: header.revision, physical: true });
    },
    /** Requests that it has been sent so far, by kind. */
    async requests() {
      const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
      const lines = text.matchAll(/^grpc_server_started_total\{.*grpc_method="(\w+)".*\} (\S+)$/gm);
      return new Map([...lines].map(([, method, count]) => [method, Number(count)]));
    },
    stop: async () => {
      close();
      process.removeListener("exit", end);
      end();
    },
  };
}

/** Acquire and release as two transactions, one session being kept. */
async function rawGateway({ port }) {
  const { ask, close } = gateway(port);
  const { ID } = await ask("lease/grant", { TTL: 600 });
  const key = base64("bench:raw");
  const free = { key, target: "CREATE", result: "EQUAL", create_revision: "0" };
  return {
    async pair() {
      const put = { request_put: { key, value: VALUE, lease: ID } };
      const { header } = await ask("kv/txn", { compare: [free], success: [put] });
      const own = { ...free, create_revision: header.revision };
      await ask("kv/txn", { compare: [own], success: [{ request_delete_range: { key } }] });
    },
    close,
  };
}

async function rawGrpc({ port }) {
  const client = new Etcd3({ hosts: `127.0.0.1:${port}` });
  const lease = client.lease(600);
  const id = await lease.grant();
  const key = "bench:grpc";
  return {
    async pair() {
      await client.if(key, "Create", "==", 0).then(client.put(key).value(VALUE).lease(id)).commit();
      await client.if(key, "Create", ">", 0).then(client.delete().key(key)).commit();
    },
    async close() {
      await lease.revoke();
      client.close();
    },
  };
}

async function ours({ url }) {
  const tenure = await connect(url);
  return {
    async pair() {
      await (await tenure.tryAcquire("bench:pair", { ttl: 600_000 })).release();
    },
    enter: async (name) => {
      const lease = await tenure.acquire(name, { ttl: TTL_S * 1_000 });
      return () => lease.release();
    },
    hold: (name) => tenure.acquire(name, { ttl: TTL_S * 1_000 }),
    close: () => tenure.close(),
  };
}

async function etcd3Lock({ port }) {
  const client = new Etcd3({ hosts: `127.0.0.1:${port}` });
  return {
    async pair() {
      const lock = await client.lock("bench:etcd3").ttl(TTL_S).acquire();
      await lock.release();
    },
    close: () => client.close(),
  };
}

const version = /Version: (\S+)/.exec(execFileSync(BINARY, ["--version"], { encoding: "utf8" }))[1];

/** What the parts of this benchmark need of a store. */
export const etcd = {
  name: "etcd",
  versions: [`etcd ${version}`, `etcd3 ${versionOf("etcd3")}`],
  start,
  /** The first is what the ratios are taken to. */
  pairs: {
    "raw transactions, JSON": rawGateway,
    "raw transactions, gRPC (etcd3)": rawGrpc,
    Tenure: ours,
    "Lock of etcd3": etcd3Lock,
  },
  ours,
};
