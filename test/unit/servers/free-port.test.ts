import { once } from "node:events";
import { createServer } from "node:net";
import { expect, test } from "vitest";
import { freePort } from "../../servers/free-port.js";

/** Whether another listener gets the place. */
async function isTaken(place: { path: string } | { port: number; host: string }) {
  const server = createServer().listen(place);
  try {
    await once(server, "listening");
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "EADDRINUSE";
  } finally {
    server.close();
  }
}

test.runIf(process.platform === "linux")(
  "a port that was handed out is nobody else's, and free for the server that it is for",
  async () => {
    const port = await freePort();
    for (const own of [port, port + 10_000]) {
      expect(await isTaken({ path: `\0tenure-test-port-${own}` })).toBe(true);
      expect(await isTaken({ port: own, host: "127.0.0.1" })).toBe(false);
    }
  },
);

test("no port is handed out twice", async () => {
  const ports = await Promise.all(Array.from({ length: 100 }, () => freePort()));
  expect(new Set(ports.flatMap((port) => [port, port + 10_000])).size).toBe(200);
});
