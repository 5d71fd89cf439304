/** One Consul with what is compared on it: one server, on the disk of the machine. */
import { spawn } from "node:child_process";
import { existsSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { Agent, request } from "node:http";
import { createServer } from "node:net";
import { once } from "node:events";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { connect } from "tenure";
import { sleep } from "../figures.mjs";

const VERSION = "1.14.11";
/** As `node scripts/build-consul.mjs` leaves it. */
const BINARY = join(homedir(), `.cache/tenure-servers/consul-${VERSION}`);
const READY_WITHIN_MS = 15_000;
const TTL_S = 30;

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

/** The least that speaks to an agent: one request on a connection that is kept. */
function agentAt(port) {
  const agent = new Agent({ keepAlive: true });
  const ask = (method, path, body) =>
    new Promise((resolve, reject) => {
      const text = body === undefined ? "" : JSON.stringify(body);
      const to = { port, agent, path: `/v1/${path}`, method, host: "127.0.0.1" };
      const sent = request(to, (answer) => {
        let got = "";
        answer.setEncoding("utf8").on("data", (part) => (got += part));
        answer.on("end", () => resolve(answer.statusCode === 200 ? JSON.parse(got) : undefined));
      });
      sent.on("error", reject);
      sent.setHeader("Content-Length", Buffer.byteLength(text));
      sent.end(text);
    });
  return { ask, close: () => agent.destroy() };
}

const VALUE = { holder: "0f8fad5b-d9cb-469f-a165-70867728950e" };

async function start() {
  const [port, rpc, serf] = [await freePort(), await freePort(), await freePort()];
  const folder = mkdtempSync(join(tmpdir(), "tenure-bench-consul-"));
  const config = {
    server: true,
    bootstrap: true,
    data_dir: join(folder, "data"),
    bind_addr: "127.0.0.1",
    client_addr: "127.0.0.1",
    disable_update_check: true,
    connect: { enabled: false },
    telemetry: { prometheus_retention_time: "1h" },
    performance: { raft_multiplier: 1 },
    ports: { http: port, server: rpc, serf_lan: serf, ...OFF },
  };
  writeFileSync(join(folder, "consul.json"), JSON.stringify(config));
  const args = ["agent", "-config-file", join(folder, "consul.json")];
  const child = spawn(BINARY, args, { stdio: "ignore" });
  const end = () => {
    child.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  };
  process.once("exit", end);
  const { ask, close } = agentAt(port);
  const commit = () => ask("PUT", "kv/bench/commit", VALUE);
  // A session belongs to a node, which the leader has to know.
  const isUp = () => ask("PUT", "session/create", { TTL: "10s" }).catch(() => undefined);
  for (let waitedMs = 0; (await isUp()) === undefined; waitedMs += 50) {
    if (waitedMs > READY_WITHIN_MS) throw new Error(`${BINARY} is not ready`);
    await sleep(50);
  }
  return {
    port,
    url: `consul://127.0.0.1:${port}`,
    /** One commit, for scale. */
    commit,
    /** Requests that it has been sent so far, by kind. */
    async requests() {
      const url = `http://127.0.0.1:${port}/v1/agent/metrics?format=prometheus`;
      const text = await (await fetch(url)).text();
      const lines = text.matchAll(/^consul_api_http_count\{.*path="v1_(\w+)"\} (\S+)$/gm);
      return new Map([...lines].map(([, path, count]) => [path, Number(count)]));
    },
    stop: async () => {
      close();
      process.removeListener("exit", end);
      end();
    },
  };
}

const OFF = { dns: -1, grpc: -1, grpc_tls: -1, serf_wan: -1 };

/** Acquire and release of a key, one session being kept: what the documentation shows. */
async function rawKeys({ port }) {
  const { ask, close } = agentAt(port);
  const session = { TTL: "600s", NodeChecks: [], Checks: [], LockDelay: "0s" };
  const { ID } = await ask("PUT", "session/create", session);
  return {
    async pair() {
      await ask("PUT", `kv/bench/raw?acquire=${ID}`, VALUE);
      await ask("PUT", `kv/bench/raw?release=${ID}`, VALUE);
    },
    close,
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

/** What the parts of this benchmark need of a store; undefined where the server is not built. */
export const consul = existsSync(BINARY)
  ? {
      name: "consul",
      versions: [`Consul ${VERSION}`],
      start,
      /** The first is what the ratios are taken to. */
      pairs: { "raw acquire and release": rawKeys, Tenure: ours },
      ours,
    }
  : undefined;
