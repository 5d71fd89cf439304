import { afterAll, beforeAll, expect, it } from "vitest";
import { describeOn } from "../../servers/find.js";
import { startZookeeper, zookeeperProgram, type ZookeeperServer } from "../../servers/zookeeper.js";
import { at, call, freshName, handOn, nodesOf, openOn, proxyTo, take, tenureOn } from "./rig.js";

/** Nobody waits that long here: what is gone before was ended by hand. */
const SESSION_MS = 40_000;

describeOn(zookeeperProgram, "a zookeeper session that is closed while its connection is lost", () => {
  let server: ZookeeperServer;
  beforeAll(async () => void (server = await startZookeeper()));
  afterAll(() => server.dispose());

  it("is closed as soon as the connection comes back, and its leases end", async () => {
    const name = freshName();
    const proxy = await proxyTo(server);
    const backend = await openOn([at(proxy)]);
    const hand = handOn(server.url);
    const { id } = await backend.sessions!.open(SESSION_MS, call());
    await take(backend, { name, holder: "h", ttlMs: SESSION_MS, session: id });
    proxy.silence();
    proxy.cut();
    const looking = proxy.connected();
    const closing = backend.sessions!.close(id, call(30_000));
    await looking;
    expect(await nodesOf(hand, name)).toHaveLength(1);
    await proxy.heal();
    await closing;
    expect((await nodesOf(hand, name)) ?? []).toEqual([]);
  });

  it("is closed when the request to close it was lost with the connection", async () => {
    const name = freshName();
    const proxy = await proxyTo(server);
    const backend = await openOn([at(proxy)]);
    const hand = handOn(server.url);
    const { id } = await backend.sessions!.open(SESSION_MS, call());
    await take(backend, { name, holder: "h", ttlMs: SESSION_MS, session: id });
    proxy.silence("request");
    const closing = backend.sessions!.close(id, call(30_000));
    await proxy.dropped("request");
    proxy.cut();
    await proxy.heal();
    await closing;
    expect((await nodesOf(hand, name)) ?? []).toEqual([]);
  });

  it("is closed with a tenure whose release could not get through", async () => {
    const name = freshName();
    const proxy = await proxyTo(server);
    const tenure = await tenureOn([at(proxy)]);
    const hand = handOn(server.url);
    await tenure.acquire(name, { ttl: SESSION_MS });
    proxy.silence();
    proxy.cut();
    const looking = proxy.connected();
    // The release may have failed, which is told.
    const closing = tenure.close().catch(() => undefined);
    await looking;
    await proxy.heal();
    await closing;
    expect((await nodesOf(hand, name)) ?? []).toEqual([]);
  });

  it("is left to its time-out when the connection does not come back in time", async () => {
    const name = freshName();
    const proxy = await proxyTo(server);
    const backend = await openOn([at(proxy)]);
    const hand = handOn(server.url);
    const { id } = await backend.sessions!.open(SESSION_MS, call());
    await take(backend, { name, holder: "h", ttlMs: SESSION_MS, session: id });
    proxy.refuse();
    proxy.cut();
    const startedMs = performance.now();
    await backend.sessions!.close(id, call(2_000));
    expect(performance.now() - startedMs).toBeGreaterThan(1_000);
    expect(await nodesOf(hand, name)).toHaveLength(1);
    expect(await backend.sessions!.keepAlive(id, call())).toBe("gone");
  });
});
