/** A Redis server of the benchmark's own: on a free loopback port, with nothing on the disk. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Redis } from "ioredis";
import { sleep } from "../figures.mjs";

const BINARY = "redis-server";
const READY_WITHIN_MS = 10_000;

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
}

/** @returns its port and URL, a client for looking at it, and what ends it */
export async function startRedis() {
  const port = await freePort();
  const folder = mkdtempSync(join(tmpdir(), "tenure-bench-redis-"));
  const directives = { port, bind: "127.0.0.1", dir: folder, save: "", appendonly: "no" };
  const args = Object.entries(directives).flatMap(([name, value]) => [`--${name}`, String(value)]);
  const child = spawn(BINARY, args, { stdio: "ignore" });
  const failed = new Promise((_, reject) => {
    child.once("error", (error) => reject(new Error(`${BINARY}: ${error.message}`)));
    child.once("exit", (code) => reject(new Error(`${BINARY} ended with code ${code}`)));
  });
  failed.catch(() => undefined);
  const end = () => {
    child.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  };
  process.once("exit", end);
  const client = new Redis(port, "127.0.0.1", { retryStrategy: () => 20 });
  client.on("error", () => undefined);
  const late = sleep(READY_WITHIN_MS).then(() => Promise.reject(new Error(`${BINARY}: silent`)));
  late.catch(() => undefined);
  const [, version] = /redis_version:(\S+)/.exec(
    await Promise.race([client.info("server"), failed, late]),
  );
  return {
    port,
    url: `redis://127.0.0.1:${port}`,
    version,
    client,
    async stop() {
      client.disconnect();
      child.removeAllListeners("exit");
      end();
      process.removeListener("exit", end);
    },
  };
}
