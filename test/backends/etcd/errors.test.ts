import { createServer, type Server } from "node:http";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { connect as connectTo, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { createServer as createTlsServer } from "node:tls";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { etcd, type EtcdOptions } from "../../../src/backends/etcd/open.js";
import { connect } from "../../../src/connect.js";
import { GuaranteeError, OutcomeUnknownError, UnavailableError } from "../../../src/core/errors.js";
import { etcdAddress } from "../../../src/drivers/etcd/address.js";
import { etcdClient } from "../../../src/drivers/etcd/open.js";
import { faultProxy } from "../../../src/testing/fault-proxy.js";
import { certificate, certificateKey } from "../../servers/certificate.js";
import { etcdProgram, startEtcd, type EtcdServer } from "../../servers/etcd.js";
import { describeOn } from "../../servers/find.js";
import { clientOn, eventually, keys, tenureOn } from "./rig.js";

const SECRET = "hunter2";

async function failure(work: Promise<unknown>): Promise<any> {
  return work.then(
    () => expect.fail("it did not fail"),
    (error: unknown) => error,
  );
}

describe("addresses of etcd", () => {
  it("reads hosts, ports, user and password", () => {
    expect(etcdAddress("etcd://a,b:1234,[::1]:5,[fe80::1]")).toMatchObject({
      hosts: [
        { host: "a", port: 2379 },
        { host: "b", port: 1234 },
        { host: "::1", port: 5 },
        { host: "fe80::1", port: 2379 },
      ],
      user: undefined,
      tls: undefined,
    });
    expect(etcdAddress("etcds://me:p%40ss%3Aw%2Frd@a/")).toMatchObject({
      user: "me",
      password: "p@ss:w/rd",
      tls: {},
    });
    expect(etcdAddress(["10.0.0.1:2380"], { ca: "PEM", user: "u", password: "" })).toMatchObject({
      hosts: [{ host: "10.0.0.1", port: 2380 }],
      tls: { ca: "PEM" },
      password: "",
    });
  });

  it.each<[hosts: unknown, options: EtcdOptions, option: string]>([
    ["http://a", {}, "url"],
    ["etcd://", {}, "url"],
    ["etcd://a:99999", {}, "url"],
    ["etcd://a:0", {}, "url"],
    ["etcd://a,,b", {}, "url"],
    [`etcd://me:${SECRET}@home@a`, {}, "url"],
    [`etcd://me:${SECRET}%zz@a`, {}, "url"],
    [`etcd://me:${SECRET}/x@a`, {}, "url"],
    ["etcd://a?prefix=x", {}, "url"],
    ["etcds://a?ca=no-such-file", {}, "url ?ca"],
    [["a"], { cert: "x", key: "x" }, "cert and key"],
    ["etcd://me@a", {}, "password"],
    [[], {}, "hosts"],
    [["a:b"], {}, "hosts[0]"],
    [["a", 7], {}, "hosts[1]"],
    [7, {}, "client"],
    [{}, {}, "client"],
    ["etcd://a", { user: "me" }, "password"],
    ["etcd://a", { password: 7 as never }, "password"],
    ["etcd://a", { tls: "yes" as never }, "tls"],
    ["etcd://a", { prefix: "no-slash" }, "prefix"],
    ["etcd://a", { prefix: "" }, "prefix"],
    ["etcd://a", { storeId: "" }, "storeId"],
  ])("refuses %o %o before any I/O, and tells no secret", (hosts, options, option) => {
    let thrown: any;
    try {
      etcd(hosts as string, options);
    } catch (error) {
      thrown = error;
    }
    expect(thrown).toMatchObject({ family: "caller", option });
    expect(JSON.stringify(thrown) + String(thrown)).not.toContain(SECRET);
  });
});

describeOn(etcdProgram, "what is wrong with etcd is told", () => {
  const servers: EtcdServer[] = [];
  const start = async (...args: Parameters<typeof startEtcd>): Promise<EtcdServer> => {
    const server = await startEtcd(...args);
    servers.push(server);
    return server;
  };
  let server: EtcdServer;
  beforeAll(async () => void (server = await start()));
  afterAll(async () => {
    for (const one of servers) await one.dispose();
  });

  async function pretend(answer: string, status = 200): Promise<string> {
    const other: Server = createServer((_, response) => response.writeHead(status).end(answer));
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void other.close());
    return `etcd://127.0.0.1:${(other.address() as AddressInfo).port}`;
  }

  it("a TTL below what the servers keep, with the least in the message", async () => {
    const tenure = await tenureOn(server.url);
    for (const ttl of [999, 1, "500ms"] as const) {
      const error = await failure(tenure.tryAcquire("x", { ttl }));
      expect(error).toBeInstanceOf(RangeError);
      expect(error.message).toMatch(/ttl must be .*at least 1s/);
    }
    const lease = await tenure.acquire("x", { ttl: 1_200 });
    expect(lease.ttlMs).toBe(2_000);
    const slow = await start({ "heartbeat-interval": 200, "election-timeout": 2_000 });
    const tenureOnSlow = await tenureOn(slow.url);
    await expect(tenureOnSlow.tryAcquire("x", { ttl: "2s" })).rejects.toThrow(/at least 3s/);
  });

  it("nobody there, no etcd there, an etcd that is too old, no gateway", async () => {
    const none = await failure(connect("etcd://127.0.0.1:1,127.0.0.1:2"));
    expect(none).toBeInstanceOf(UnavailableError);
    expect(none.message).toMatch(/127.0.0.1:1: connect ECONNREFUSED.*127.0.0.1:2: connect/);
    const old = JSON.stringify({ header: { cluster_id: "1" }, version: "3.3.27" });
    await expect(connect(await pretend(old))).rejects.toThrow(GuaranteeError);
    await expect(connect(await pretend(old))).rejects.toThrow(/etcd 3.3.27 is too old/);
    const gone = await failure(connect(await pretend("404 page not found", 404)));
    expect(gone).toMatchObject({ retryable: false });
    expect(gone.message).toMatch(/no \/v3 gateway/);
    await expect(connect(await pretend("hello"))).rejects.toThrow(UnavailableError);
  });

  it("a member of another cluster", async () => {
    const other = await start({ "initial-cluster-token": "other" });
    const tenure = await tenureOn([`127.0.0.1:${server.port}`, `127.0.0.1:${other.port}`]);
    await server.stop();
    try {
      const error = await failure(tenure.tryAcquire("x"));
      expect(error).toBeInstanceOf(UnavailableError);
      expect(error).toMatchObject({ retryable: false });
      expect(error.message).toMatch(/another cluster/);
    } finally {
      await server.start();
    }
  });

  it("something among our keys that is not ours", async () => {
    const tenure = await tenureOn(server.url);
    await server.call("kv/put", { key: keys.lease("foreign", "x"), value: "e30=" });
    const error = await failure(tenure.tryAcquire("foreign"));
    expect(error).toMatchObject({ key: "tenure/leases/foreign/x", retryable: false });
    expect(await tenure.tryAcquire("foreign 2")).not.toBeNull();
  });

  it("no space left: new leases are refused, those there are go on, and can be given back", async () => {
    const full = await start({ "quota-backend-bytes": 2_000_000 });
    const tenure = await tenureOn(full.url);
    const lease = await tenure.acquire("x", { ttl: "2s" });
    const value = Buffer.alloc(500_000, 7).toString("base64");
    const fill = async (): Promise<boolean> => {
      const put = { key: Buffer.from(`${Math.random()}`).toString("base64"), value };
      return full.call("kv/put", put).then(
        () => false,
        () => true,
      );
    };
    await eventually("no space", fill);
    const error = await failure(tenure.tryAcquire("y", { ttl: "2s" }));
    expect(error).toBeInstanceOf(UnavailableError);
    expect(error.message).toMatch(/database is full \(NOSPACE\)/);
    await lease.renew();
    expect(await lease.release()).toBe("released");
  });

  it("a server that is silent: its holder is told by its deadline (cases 1, 4)", async () => {
    const proxy = await faultProxy({ port: server.port });
    onTestFinished(() => proxy.close());
    const tenure = await tenureOn([`127.0.0.1:${proxy.port}`]);
    const lease = await tenure.acquire("silent", { ttl: "2s" });
    proxy.silence();
    const sinceMs = performance.now();
    await eventually("its loss", () => lease.signal.aborted, 2_500);
    expect(performance.now() - sinceMs).toBeLessThan(2_100);
    expect(lease.signal.reason).toMatchObject({ reason: "deadline" });
    await proxy.heal();
    const next = await tenure.acquire("silent", { ttl: "2s" });
    // Connections that died silently are not waited for.
    proxy.silence();
    await proxy.dropped("request");
    await proxy.heal();
    await next.renew();
    expect(next.state).toBe("held");
  });

  it("users: none where one is wanted, a wrong one, one without rights; logs in anew in time", async () => {
    const guarded = await start({ "auth-token-ttl": 1 });
    for (const user of ["root", "clerk"]) {
      await guarded.call("auth/user/add", { name: user, password: SECRET });
    }
    await guarded.call("auth/role/add", { name: "root" });
    await guarded.call("auth/user/grant", { user: "root", role: "root" });
    await guarded.call("auth/enable", {});
    const open = (options: EtcdOptions, url = guarded.url): Promise<any> =>
      failure(tenureOn(url, options));
    expect(await open({})).toMatchObject({ retryable: false });
    expect((await open({})).message).toMatch(/wants a user and a password/);
    const wrong = await open({ user: "root", password: `${SECRET}!` });
    expect(wrong).toMatchObject({ retryable: false });
    expect(wrong.message).toMatch(/refused user name and password/);
    const clerk = await open({ user: "clerk", password: SECRET });
    expect(clerk).toMatchObject({ retryable: false });
    expect(clerk.message).toMatch(/no permission/);
    for (const error of [wrong, clerk]) expect(JSON.stringify(error)).not.toContain(SECRET);

    const url = guarded.url.replace("etcd://", `etcd://root:${SECRET}@`);
    const tenure = await tenureOn(url);
    const lease = await tenure.acquire("x", { ttl: "2s" });
    await guarded.restart();
    await lease.renew();
    const waiting = tenure.acquire("x", { ttl: "2s" });
    await new Promise((wake) => setTimeout(wake, 2_500));
    expect(lease.state).toBe("held");
    await lease.release();
    await (await waiting).release();
    await expect(tenureOn(server.url, { user: "a", password: "b" })).rejects.toThrow(/wants none/);
  }, 30_000);

  it("TLS: spoken where the certificate is trusted, refused where it is not", async () => {
    const secure = createTlsServer({ cert: certificate, key: certificateKey }, (socket) => {
      const onward = connectTo(server.port, "127.0.0.1");
      for (const end of [socket, onward]) end.on("error", () => undefined);
      socket.pipe(onward).pipe(socket);
    });
    await new Promise<void>((resolve) => secure.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => void secure.close());
    const host = `127.0.0.1:${(secure.address() as AddressInfo).port}`;
    const tenure = await tenureOn([host], { ca: certificate });
    const lease = await tenure.acquire("tls", { ttl: "2s" });
    const waiting = tenure.acquire("tls", { ttl: "2s" });
    await lease.release();
    await (await waiting).release();

    const untrusted = await failure(tenureOn(`etcds://me:${SECRET}@${host}`));
    expect(untrusted).toBeInstanceOf(UnavailableError);
    expect(untrusted.message).toMatch(/self-signed certificate/);
    expect(JSON.stringify(untrusted) + String(untrusted)).not.toContain(SECRET);
    const plain = await failure(tenureOn([host]));
    expect(plain).toBeInstanceOf(UnavailableError);

    const folder = await mkdtemp(path.join(tmpdir(), "tenure-etcd-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    const file = path.join(folder, "ca.pem");
    await writeFile(file, certificate);
    const byUrl = await connect(`etcds://${host}?ca=${encodeURIComponent(file)}`);
    expect(await byUrl.inspect("tls")).toBeNull();
    await byUrl.close();
  });
});

describe("a refusal after silence", () => {
  /** A server of HTTP that does as it is told, and its address. */
  async function member(
    answer: (respond: (text: string, status?: number) => void) => void,
  ): Promise<string> {
    const server = createServer((_, response) => {
      answer((text, status = 200) => void response.writeHead(status).end(text));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    return `127.0.0.1:${(server.address() as AddressInfo).port}`;
  }

  const refusing = (): Promise<string> =>
    member((respond) => respond('{"error":"etcdserver: permission denied","code":7}', 403));

  it("is certain of a read and of the only member asked, and of nothing else", async () => {
    const options = { during: "test", timeoutMs: 3_000 };
    const silent = await member(() => undefined);
    const client = clientOn([silent, await refusing()]);
    await expect(client.ask("kv/txn", {}, options)).rejects.toBeInstanceOf(OutcomeUnknownError);
    const other = clientOn([silent, await refusing()]);
    const read = other.ask("kv/range", {}, { ...options, isRead: true });
    await expect(read).rejects.toMatchObject({ family: "unavailable", retryable: false });
    const alone = clientOn([await refusing()]);
    await expect(alone.ask("kv/txn", {}, options)).rejects.toBeInstanceOf(UnavailableError);
  });

  it("answers of a member that was asked second tell that a copy may still come", async () => {
    const options = { during: "test", timeoutMs: 3_000 };
    const good = await member((respond) => respond('{"succeeded":true}'));
    const client = clientOn([await member(() => undefined), good]);
    expect(await client.ask("kv/txn", {}, options)).toMatchObject({ isLoose: true });
    // From now on the one that answers is asked first.
    expect(await client.ask("kv/txn", {}, options)).toMatchObject({ isLoose: false });
    const gone = clientOn(["127.0.0.1:1", good]);
    expect(await gone.ask("kv/txn", {}, options)).toMatchObject({ isLoose: false });
  });

  it("while it logs in anew nothing else is asked, and nothing is sent once it was given up", async () => {
    const txns: (string | undefined)[] = [];
    const held: (() => void)[] = [];
    let logins: "quick" | "held" | "slow" = "quick";
    const server = createServer(({ url, headers }, response) => {
      const answer = (text: string, status = 200): void =>
        void response.writeHead(status).end(text);
      if (url === "/v3/auth/authenticate") {
        const grant = answer.bind(undefined, JSON.stringify({ token: logins }));
        if (logins === "held") held.push(grant);
        // Longer than a silent member is waited for: passwords take their time to be checked.
        else setTimeout(grant, logins === "slow" ? 700 : 0);
      } else if (url === "/v3/kv/range") answer("{}");
      else {
        txns.push(headers.authorization);
        if (headers.authorization === "slow") answer('{"succeeded":true}');
        else answer('{"error":"etcdserver: invalid auth token","code":16}', 401);
      }
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    onTestFinished(() => {
      server.closeAllConnections();
      server.close();
    });
    const { port } = server.address() as AddressInfo;
    const client = etcdClient([`127.0.0.1:${port}`], { user: "me", password: SECRET });
    onTestFinished(() => client.close());

    await client.ask("kv/range", {}, { during: "test", timeoutMs: 5_000, isRead: true });
    logins = "held";
    const given = client.ask("kv/txn", {}, { during: "test", timeoutMs: 600 });
    await expect(given).rejects.toMatchObject({ family: "unavailable", retryable: true });
    await eventually("a login under way", () => held.length > 0);
    for (const grant of held) grant();
    await client.ask("kv/range", {}, { during: "test", timeoutMs: 5_000, isRead: true });
    expect(txns).toEqual(["quick"]);
    logins = "slow";
    const asked = client.ask("kv/txn", {}, { during: "test", timeoutMs: 10_000 });
    expect(await asked).toMatchObject({ body: { succeeded: true }, isLoose: false });
    expect(txns).toEqual(["quick", "held", "slow"]);
  });

  it("what cannot be sent is refused, however often, and takes nobody's place", async () => {
    const token = "two\nlines";
    const client = etcdClient([await member((respond) => respond(JSON.stringify({ token })))], {
      ...{ user: "me", password: SECRET },
    });
    onTestFinished(() => client.close());
    for (let time = 0; time < 70; time++) {
      const error = await failure(client.ask("kv/txn", {}, { during: "test", timeoutMs: 2_000 }));
      expect(error).toMatchObject({ family: "unavailable", retryable: false });
      expect(error.message).toMatch(/^cannot test: nothing can be sent: Invalid character/);
    }
  });

  it("nothing can come any more once the client is closed, and nothing is sent", async () => {
    const client = clientOn([await member(() => undefined)]);
    const options = { during: "test", timeoutMs: 3_000 };
    const asked = client.ask("kv/txn", {}, options);
    client.close();
    await expect(asked).rejects.toBeInstanceOf(OutcomeUnknownError);
    await expect(client.ask("kv/txn", {}, options)).rejects.toMatchObject({ retryable: false });
  });

  it("who waits for a place when the client is closed is told so", async () => {
    const client = clientOn([await member(() => undefined)]);
    const ask = (): Promise<any> => client.ask("kv/txn", {}, { during: "test", timeoutMs: 3_000 });
    const asked = Array.from({ length: 65 }, () => failure(ask()));
    client.close();
    const last = (await Promise.all(asked)).at(-1);
    expect(last).toMatchObject({ family: "unavailable", retryable: false });
    expect(last.message).toMatch(/closed/);
  });
});
