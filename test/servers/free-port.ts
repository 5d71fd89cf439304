import { once } from "node:events";
import { createServer, type ListenOptions, type Server } from "node:net";

/**
 * Below the ports that systems hand to outgoing connections, so that none of those takes the port
 * of a server that is down for a moment. The same is true of the port above, which etcd and the
 * nodes of a Redis cluster use among themselves.
 */
const FIRST = 11_000;
const LAST = 22_000;
/** From a server's port to that for its peers. */
const ABOVE = 10_000;

/**
 * A loopback port that nobody listens on now, nor on the one 10,000 above it. On Linux it is this
 * process's until it ends: the tests of others do not take it before its server has started, nor
 * while that is down, nor so much as try it.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = FIRST + Math.floor(Math.random() * (LAST - FIRST));
    if (!(await isOurs(port)) || !(await isOurs(port + ABOVE))) continue;
    if ((await isFree(port)) && (await isFree(port + ABOVE))) return port;
  }
}

/**
 * Takes a port for this process, by a socket of its name that no file system shows: the system lets
 * one process have it, and takes it back when that is no more.
 */
async function isOurs(port: number): Promise<boolean> {
  if (process.platform !== "linux") return true;
  const mark = await listening({ path: `\0tenure-test-port-${port}` });
  mark?.unref();
  return mark !== undefined;
}

async function isFree(port: number): Promise<boolean> {
  const server = await listening({ port, host: "127.0.0.1" });
  if (server === undefined) return false;
  server.close();
  await once(server, "close");
  return true;
}

/** Nothing where somebody has the place. */
async function listening(place: ListenOptions): Promise<Server | undefined> {
  const server = createServer();
  try {
    server.listen(place);
    await once(server, "listening");
    return server;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EADDRINUSE") throw error;
    return undefined;
  }
}
