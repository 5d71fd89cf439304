import { once } from "node:events";
import { createServer } from "node:net";

/**
 * Below the ports that systems hand to outgoing connections, so that none of those takes the port
 * of a server that is down for a moment. The same is true of the port 10,000 above, which the nodes
 * of a Redis cluster use among themselves.
 */
const FIRST = 11_000;
const LAST = 22_000;

/** A loopback port that nobody listens on now. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = FIRST + Math.floor(Math.random() * (LAST - FIRST));
    if (await isFree(port)) return port;
  }
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer();
  try {
    server.listen(port, "127.0.0.1");
    await once(server, "listening");
  } catch {
    return false;
  }
  server.close();
  await once(server, "close");
  return true;
}
