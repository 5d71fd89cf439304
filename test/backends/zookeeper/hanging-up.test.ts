import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import { zookeeperClient } from "../../../src/drivers/zookeeper/client.js";
import { ConnectionLostError } from "../../../src/drivers/zookeeper/errors.js";
import { JuteWriter } from "../../../src/drivers/zookeeper/jute.js";
import { platform } from "../../../src/platform/index.js";

/** A server that greets everybody, and hangs up when it is asked for anything. */
async function hangingUp(): Promise<{ readonly host: string; readonly greeted: () => number }> {
  let greeted = 0;
  const welcome = (): Buffer =>
    new JuteWriter().int(0).int(60_000).long(7n).buffer(Buffer.alloc(16)).frame();
  const server = createServer((socket) => {
    let hasGreeted = false;
    socket.on("error", () => undefined);
    socket.on("data", () => {
      if (hasGreeted) return socket.resetAndDestroy();
      hasGreeted = true;
      greeted += 1;
      return socket.write(welcome());
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  return { host: `127.0.0.1:${port}`, greeted: () => greeted };
}

describe("a zookeeper session", () => {
  it("rests for longer and longer where each server hangs up without an answer", async () => {
    const { host, greeted } = await hangingUp();
    const { timers, ...runtime } = platform();
    const rests: number[] = [];
    const controller = new AbortController();
    const client = zookeeperClient(host, {
      runtime: {
        ...runtime,
        random: { ...runtime.random, uniform: () => 0.5 },
        timers: {
          ...timers,
          after: (delayMs, run, options) => {
            if (delayMs <= 500) rests.push(delayMs);
            if (rests.length > 4) controller.abort();
            return timers.after(delayMs, run, options);
          },
        },
      },
    });
    const call = { signal: controller.signal, timeoutMs: 60_000 };
    const session = await client.open(60_000, call);
    await expect(session.ping(call)).rejects.toThrow(ConnectionLostError);
    expect(rests).toEqual([100, 200, 400, 500, 500]);
    // One for the session, one at once after it, and one after each rest that was over.
    expect(greeted()).toBe(2 + 4);
    await session.close();
  });
});
