import { connect, createServer, type AddressInfo, type Server, type Socket } from "node:net";
import { once } from "node:events";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { faultProxy, type FaultProxy } from "../../../src/testing/fault-proxy.js";

let server: Server;
let proxy: FaultProxy;
/** What the server has seen, in order. */
let seen: string[];
let serverSockets: Socket[];
let sleeps: { readonly ms: number; readonly wake: () => void }[];
const sockets: Socket[] = [];

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Several turns of the event loop: enough for anything on loopback that would come. */
async function settle(): Promise<void> {
  for (let i = 0; i < 20; i++) await turn();
}

async function client(): Promise<Socket> {
  const socket = connect({ port: proxy.port, host: "127.0.0.1" });
  sockets.push(socket);
  socket.on("error", () => undefined);
  socket.setEncoding("utf8");
  await once(socket, "connect");
  return socket;
}

/** Resolves when the socket has closed; `once` would reject for a reset. */
const closed = (socket: Socket): Promise<void> =>
  new Promise((resolve) => void socket.once("close", () => resolve()));

async function answer(socket: Socket): Promise<string> {
  const [text] = (await once(socket, "data")) as [string];
  return text;
}

beforeEach(async () => {
  seen = [];
  serverSockets = [];
  sleeps = [];
  server = createServer((socket) => {
    serverSockets.push(socket);
    socket.on("error", (error: NodeJS.ErrnoException) => seen.push(String(error.code)));
    socket.on("end", () => seen.push("end"));
    socket.on("data", (bytes) => {
      seen.push(bytes.toString());
      socket.write(`re:${bytes.toString()}`);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  proxy = await faultProxy({
    port: (server.address() as AddressInfo).port,
    sleep: (ms) => new Promise<void>((wake) => void sleeps.push({ ms, wake })),
  });
});

afterEach(async () => {
  await proxy.close();
  for (const socket of [...sockets.splice(0), ...serverSockets]) socket.destroy();
  server.close();
  await once(server, "close");
});

describe("the fault proxy", () => {
  it("passes bytes and ends on, and counts them", async () => {
    const a = await client();
    const passed = proxy.passed("reply", 6);
    a.write("abc");
    expect(await answer(a)).toBe("re:abc");
    await passed;
    expect(proxy.counts).toEqual({
      connections: { made: 1, open: 1 },
      bytes: { request: { passed: 3, dropped: 0 }, reply: { passed: 6, dropped: 0 } },
    });
    a.end();
    await closed(a);
    expect(seen).toEqual(["abc", "end"]);
    expect(proxy.counts.connections).toEqual({ made: 1, open: 0 });
  });

  it("falls silent: bytes and ends vanish, nobody is told, and healing resets", async () => {
    const a = await client();
    const b = await client();
    await settle();
    proxy.silence();
    const dropped = proxy.dropped("request", 3);
    a.write("abc");
    b.end();
    await dropped;
    await settle();
    expect(seen).toEqual([]);
    expect([a.closed, serverSockets.some((socket) => socket.closed)]).toEqual([false, false]);
    await proxy.heal();
    await closed(a);
    await settle();
    expect(seen).toEqual(["ECONNRESET", "ECONNRESET"]);
    const c = await client();
    c.write("x");
    expect(await answer(c)).toBe("re:x");
  });

  it("keeps the server's end from a client during silence", async () => {
    const a = await client();
    await settle();
    proxy.silence();
    serverSockets[0]!.resetAndDestroy();
    await settle();
    expect(a.closed).toBe(false);
    await proxy.heal();
    await closed(a);
  });

  it("swallows connections that are made during silence", async () => {
    proxy.silence();
    const connected = proxy.connected();
    const a = await client();
    await connected;
    const dropped = proxy.dropped("request", 5);
    a.write("hello");
    await dropped;
    expect(serverSockets).toEqual([]);
    await proxy.heal();
    await closed(a);
  });

  it("loses replies only: the server did what it was asked to", async () => {
    const a = await client();
    proxy.silence("reply");
    const dropped = proxy.dropped("reply");
    a.write("abc");
    await dropped;
    expect(seen).toEqual(["abc"]);
    expect(a.bytesRead).toBe(0);
  });

  it("loses requests only", async () => {
    const a = await client();
    await settle();
    proxy.silence("request");
    const dropped = proxy.dropped("request");
    a.write("abc");
    await dropped;
    serverSockets[0]!.write("still here");
    expect(await answer(a)).toBe("still here");
    expect(seen).toEqual([]);
  });

  it("holds bytes back and delivers them when it heals, in order", async () => {
    const a = await client();
    proxy.hold("request");
    a.write("1");
    await settle();
    a.write("2");
    await settle();
    expect(seen).toEqual([]);
    await proxy.heal();
    await proxy.passed("reply", 4);
    expect(seen.join("")).toBe("12");
  });

  it("delays bytes, and lets none overtake", async () => {
    const a = await client();
    proxy.delay(500, "request");
    a.write("slow");
    await settle();
    expect([seen, sleeps.map(({ ms }) => ms)]).toEqual([[], [500]]);
    proxy.delay(0, "request");
    a.write("fast");
    await settle();
    expect(seen).toEqual([]);
    for (const { wake } of sleeps) wake();
    await proxy.passed("request", 8);
    await settle();
    expect(seen.join("")).toBe("slowfast");
  });

  it("refuses to delay without a sleep", async () => {
    const plain = await faultProxy({ port: 1 });
    expect(() => plain.delay(1)).toThrow(/sleep/);
    await plain.close();
  });

  it("cuts: both ends see a reset, and new connections are welcome", async () => {
    const a = await client();
    a.write("x");
    await answer(a);
    const errors = once(a, "error");
    proxy.cut();
    expect(((await errors) as [NodeJS.ErrnoException])[0].code).toBe("ECONNRESET");
    await settle();
    expect(seen).toEqual(["x", "ECONNRESET"]);
    await client();
  });

  it("refuses: new connections fail, present ones go on, until it heals on the same port", async () => {
    const a = await client();
    await settle();
    const { port } = proxy;
    proxy.refuse();
    const b = connect({ port, host: "127.0.0.1" });
    expect(((await once(b, "error")) as [NodeJS.ErrnoException])[0].code).toBe("ECONNREFUSED");
    a.write("x");
    expect(await answer(a)).toBe("re:x");
    await proxy.heal();
    expect(proxy.port).toBe(port);
    await client();
  });

  it("resets clients when the server refuses or resets", async () => {
    const a = await client();
    await settle();
    serverSockets[0]!.resetAndDestroy();
    expect(((await once(a, "error")) as [NodeJS.ErrnoException])[0].code).toBe("ECONNRESET");
    const nowhere = await faultProxy({ port: 1 });
    const b = connect({ port: nowhere.port, host: "127.0.0.1" });
    b.on("error", () => undefined);
    await closed(b);
    await settle();
    expect(nowhere.counts.connections.open).toBe(0);
    await nowhere.close();
  });
});
