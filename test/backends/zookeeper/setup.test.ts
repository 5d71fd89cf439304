import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { connect as connectPlain, createServer, type AddressInfo } from "node:net";
import path from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { createServer as createTlsServer } from "node:tls";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { zookeeper } from "../../../src/backends/zookeeper/open.js";
import { connect } from "../../../src/connect.js";
import { GuaranteeError, UnavailableError } from "../../../src/core/errors.js";
import { faultProxy } from "../../../src/testing/fault-proxy.js";
import { certificate, certificateKey } from "../../servers/certificate.js";
import { describeOn } from "../../servers/find.js";
import {
  MIN_SESSION_MS,
  startZookeeper,
  zookeeperProgram,
  type ZookeeperServer,
} from "../../servers/zookeeper.js";
import {
  call,
  folderOf,
  freshName,
  handOn,
  nodesOf,
  openOn,
  queueOf,
  requester,
  take,
} from "./rig.js";

describeOn(zookeeperProgram, "opening zookeeper", () => {
  let server: ZookeeperServer;
  beforeAll(async () => {
    // Without it a snapshot that was changed by hand counts as damaged.
    server = await startZookeeper({}, { "zookeeper.digest.enabled": "false" });
  });
  afterAll(() => server.dispose());

  const url = (userinfo: string, rest = ""): string =>
    `zookeeper://${userinfo}127.0.0.1:${server.port}${rest}`;

  it("takes the bounds of the TTL from the server, and says them", async () => {
    const tenure = await connect(server.url, { timeout: "20s" });
    onTestFinished(() => tenure.close());
    expect(tenure.manifest).toMatchObject({ minTtlMs: MIN_SESSION_MS, maxTtlMs: 60_000 });
    const short = tenure.acquire("x", { ttl: MIN_SESSION_MS - 1 });
    await expect(short).rejects.toThrow(RangeError);
    await expect(short).rejects.toThrow(new RegExp(`ttl must be .*${MIN_SESSION_MS}.*399`));
    await expect(tenure.acquire("x", { ttl: "61s" })).rejects.toThrow(/ttl must be .*at most 1m/);
  });

  it("is opened from far away", async () => {
    const proxy = await faultProxy({ port: server.port, sleep });
    onTestFinished(() => proxy.close());
    // More than a tenth of a second for each answer, of which the shortest session gives no more.
    proxy.delay(75);
    const backend = await openOn(`127.0.0.1:${proxy.port}`);
    expect(backend.manifest).toMatchObject({ minTtlMs: MIN_SESSION_MS });
  });

  it("is no consensus on one server, and says so where it is asked for", async () => {
    const tenure = await connect(server.url, { timeout: "20s" });
    onTestFinished(() => tenure.close());
    expect(tenure.manifest.tokens).toBe("durable");
    const demanding = connect(server.url, { require: "consensus", timeout: "20s" });
    await expect(demanding).rejects.toThrow(GuaranteeError);
    await expect(demanding).rejects.toThrow(/three voting members or more/);
  });

  it("makes nodes that only the same credentials may touch, and tells others so", async () => {
    const mine = await connect(url("me:sec%2Fret@", "/mine"), { timeout: "20s" });
    onTestFinished(() => mine.close());
    const lease = await mine.acquire("x", { ttl: 20_000 });
    const again = await connect(url("me:sec%2Fret@", "/mine"), { timeout: "20s" });
    onTestFinished(() => again.close());
    expect((await again.inspect("x"))?.token).toBe(lease.token);
    for (const other of ["me:wr0ng@", "you:sec%2Fret@", ""]) {
      const refused = await connect(url(other, "/mine"), { timeout: "20s" }).catch(
        (error: unknown) => error,
      );
      expect(refused).toBeInstanceOf(UnavailableError);
      expect(refused).toMatchObject({ retryable: false });
      expect(String(refused)).toMatch(/cannot open the store: no permission/);
      expect(String(refused)).not.toMatch(/wr0ng|sec/);
    }
  });

  it("takes nodes for all from credentials that say so", async () => {
    const backend = await openOn(url("me:secret@", "/shared"), { access: "open" });
    await take(backend, (await requester(backend))("x"));
    const other = await openOn(url("", "/shared"));
    expect((await other.inspect("x", call()))?.holder).toBeDefined();
  });

  it("keeps each chroot and root a store of its own, and takes the id that it is given", async () => {
    const ids = new Set<string>();
    for (const chroot of ["", "/a", "/a/b"]) ids.add((await openOn(url("", chroot))).storeId);
    ids.add((await openOn(server.url, { root: "/tenure/other" })).storeId);
    expect(ids.size).toBe(4);
    const given = await openOn(server.url, { storeId: "mine" });
    expect(given.storeId).toBe("mine");
  });

  it("makes one store when several come first", async () => {
    const all = await Promise.all(Array.from({ length: 8 }, () => openOn(url("", "/rush"))));
    expect(new Set(all.map(({ storeId }) => storeId)).size).toBe(1);
  });

  it("says at once what is wrong with its options, before any connection", () => {
    expect(() => zookeeper("ftp://h")).toThrow(/^hosts must be/);
    expect(() => zookeeper(["h1", "h 2"])).toThrow(/^hosts must be/);
    expect(() => zookeeper("h", { root: "tenure" })).toThrow(/^root must be/);
    expect(() => zookeeper("h", { root: "/a/../b" })).toThrow(/^root must be/);
    expect(() => zookeeper("h", { access: "creator" })).toThrow(/^access must be/);
    expect(() => zookeeper("h", { access: "all" as "open" })).toThrow(/^access must be/);
    const credentials = { user: "", password: "secret" };
    expect(() => zookeeper("h", { credentials })).toThrow(/^credentials must be/);
    expect(() => zookeeper("h", { acess: "open" } as object)).toThrow(/^acess must be left out/);
    expect(() => zookeeper("h", { tls: "yes" as unknown as object })).toThrow(/^tls must be/);
    const pem = { cert: certificate, key: "no key" };
    expect(() => zookeeper("h", { tls: pem })).toThrow(/^tls must be what TLS takes: PEM/);
    expect(() => zookeeper("h", { storeId: "" })).toThrow(/^storeId must be/);
  });

  it("speaks over TLS, to a server whose certificate it was told to trust", async () => {
    const sealed = createTlsServer({ cert: certificate, key: certificateKey }, (client) => {
      const plain = connectPlain(server.port, "127.0.0.1");
      client.on("error", () => plain.destroy());
      plain.on("error", () => client.destroy());
      client.pipe(plain).pipe(client);
    });
    await new Promise<void>((resolve) => void sealed.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void sealed.close());
    const host = `127.0.0.1:${(sealed.address() as AddressInfo).port}`;
    const backend = await openOn(host, { tls: { ca: certificate } });
    await take(backend, (await requester(backend))(freshName()));
    const stranger = zookeeper(host, { tls: {} });
    await expect(stranger.open!(call(2_000))).rejects.toThrow(/self-signed certificate/);
  });

  it("says what it found where no ZooKeeper is", async () => {
    const stranger = createServer((socket) => void socket.end("HTTP/1.1 400 Bad Request\r\n\r\n"));
    await new Promise<void>((resolve) => void stranger.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void stranger.close());
    const { port } = stranger.address() as AddressInfo;
    const refused = connect(`zookeeper://127.0.0.1:${port}`);
    await expect(refused).rejects.toThrow(/speaks another protocol/);
    await expect(refused).rejects.toThrow(UnavailableError);
  });

  it("goes on, in order and with rising tokens, when a folder's counter has ended (case 40)", async () => {
    const name = freshName();
    const before = await openOn(server.url);
    const first = await take(before, (await requester(before))(name));
    await before.release([first], call());
    await before.close();
    // The folder is in the snapshot that a start writes; there its counter is set to the last one.
    await server.restart();
    const data = /^dataDir=(.*)$/m.exec(await server.ask("conf"))![1]!;
    await server.stop();
    setCounter(data, folderOf(name), 2 ** 31 - 1);
    await server.start();

    const backend = await openOn(server.url);
    const request = await requester(backend);
    let held = await take(backend, request(name));
    expect(held.token).toBeGreaterThan(first.token);
    const waiters = [];
    for (let i = 0; i < 3; i++) waiters.push(await queueOf(backend).enqueue(request(name), call()));
    const nodes = await nodesOf(handOn(server.url), name);
    const digits = nodes!.map((node) => node.split("~")[2]);
    // The counter gives no order any more.
    expect(digits).toContain("2147483647");
    expect(new Set(digits).size).toBeLessThan(digits.length);
    for (const waiter of waiters) {
      await backend.release([held], call());
      const next = await waiter.turn(call().signal);
      if (next === "gone") throw new Error("the place is gone");
      expect(await backend.renew([next], call())).toEqual(["renewed"]);
      expect(next.token).toBeGreaterThan(held.token);
      held = next;
    }
  });
});

/** Sets the counter of a node in the newest snapshot of a server that is down. */
function setCounter(data: string, node: string, counter: number): void {
  const snapshots = readdirSync(data).filter((file) => file.startsWith("snapshot."));
  const age = (file: string): number => Number.parseInt(file.split(".")[1]!, 16);
  const file = path.join(data, snapshots.sort((a, b) => age(b) - age(a))[0]!);
  const bytes = readFileSync(file);
  const text = Buffer.from(node, "utf8");
  const length = Buffer.alloc(4);
  length.writeInt32BE(text.length);
  let at = bytes.indexOf(Buffer.concat([length, text]));
  if (at < 0) throw new Error(`${node} is not in ${file}`);
  at += 4 + text.length;
  at += 4 + Math.max(0, bytes.readInt32BE(at));
  // Access list, four times and transactions, the version of its data.
  at += 8 + 4 * 8 + 4;
  bytes.writeInt32BE(counter, at);
  // At the end: the checksum of all before, and the text "/".
  const end = bytes.length - 13;
  bytes.writeBigInt64BE(BigInt(adler32(bytes.subarray(0, end))), end);
  writeFileSync(file, bytes);
}

function adler32(bytes: Buffer): number {
  let [a, b] = [1, 0];
  for (const byte of bytes) {
    a = (a + byte) % 65_521;
    b = (b + a) % 65_521;
  }
  return b * 65_536 + a;
}
