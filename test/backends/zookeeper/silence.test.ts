import { once } from "node:events";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import type { LeaseLostError } from "../../../src/core/errors.js";
import { describeOn } from "../../servers/find.js";
import { startZookeeper, zookeeperProgram, type ZookeeperServer } from "../../servers/zookeeper.js";
import {
  at,
  call,
  freshName,
  handOn,
  nodesOf,
  openOn,
  proxyTo,
  queueOf,
  requester,
  take,
  tenureOn,
  until,
} from "./rig.js";

describeOn(zookeeperProgram, "a zookeeper server that falls silent", () => {
  let server: ZookeeperServer;
  beforeAll(async () => void (server = await startZookeeper()));
  afterAll(() => server.dispose());

  it("is noticed after a second of the session's 4 s, and another asked for the same", async () => {
    const [one, two] = [await proxyTo(server), await proxyTo(server)];
    const backend = await openOn([at(one), at(two)]);
    const { id } = await backend.sessions!.open(4_000, call());
    const grant = await take(backend, {
      name: freshName(),
      holder: "h",
      ttlMs: 4_000,
      session: id,
    });
    // Whichever it is at, that one says nothing more.
    const used = one.counts.connections.open > 0 ? one : two;
    used.silence();
    const sentAt = performance.now();
    expect(await backend.sessions!.keepAlive(id, call())).toBe("alive");
    expect(performance.now() - sentAt).toBeLessThan(3_000);
    expect(await backend.renew([grant], call())).toEqual(["renewed"]);
  });

  it("lets no holder believe longer than its TTL (case 1)", async () => {
    const tenure = await tenureOn(server.url);
    const acquiredAt = performance.now();
    const lease = await tenure.acquire(freshName(), { ttl: 4_000, renew: false });
    const lost = once(lease.signal, "abort");
    onTestFinished(() => server.thaw());
    await server.freeze();
    await lost;
    await until("its deadline has passed", () => lease.state === "lost");
    expect(performance.now() - acquiredAt).toBeLessThan(4_200);
    expect((lease.signal.reason as LeaseLostError).reason).toBe("deadline");
    expect(() => lease.assertHeld()).toThrow();
  });

  it("loses nothing where it is silent for less than the TTL (case 4)", async () => {
    const proxy = await proxyTo(server);
    const tenure = await tenureOn([at(proxy)]);
    const lease = await tenure.acquire(freshName(), { ttl: 9_000 });
    proxy.silence();
    const renewing = lease.renew().catch(() => undefined);
    await proxy.dropped("request");
    await proxy.heal();
    await renewing;
    await until("it is renewed", () =>
      lease.renew().then(
        () => true,
        () => false,
      ),
    );
    lease.assertHeld();
  });

  it("ends the session: lost first, and nothing of it is taken for ours later (case 42)", async () => {
    const name = freshName();
    const proxy = await proxyTo(server);
    const [a, b] = [await tenureOn([at(proxy)]), await tenureOn(server.url)];
    const held = await a.acquire(name, { ttl: 2_000 });
    proxy.silence();
    const next = await b.acquire(name, { ttl: 9_000 });
    expect(held.state).toBe("lost");
    expect(next.token).toBeGreaterThan(held.token);
    await proxy.heal();
    const again = a.acquire(name, { ttl: 2_000 });
    const hand = handOn(server.url);
    await until("it waits behind the new holder", async () => {
      return (await nodesOf(hand, name))?.length === 2;
    });
    expect((await a.inspect(name))?.token).toBe(next.token);
    await next.release();
    expect((await again).token).toBeGreaterThan(next.token);
    expect(await nodesOf(hand, name)).toHaveLength(1);
  });

  it("tells a waiter whose session has ended that its place is gone (case 21)", async () => {
    const name = freshName();
    const proxy = await proxyTo(server);
    const [a, b] = [await openOn([at(proxy)]), await openOn(server.url)];
    const held = await take(b, (await requester(b))(name));
    const request = (await requester(a, 1_000))(name);
    const ticket = await queueOf(a).enqueue(request, call());
    const turn = ticket.turn(call(20_000).signal);
    proxy.silence();
    const hand = handOn(server.url);
    await until("the server ends the session", async () => {
      return (await nodesOf(hand, name))?.length === 1;
    });
    await b.release([held], call());
    proxy.cut();
    await proxy.heal();
    expect(await turn).toBe("gone");
    expect(await a.sessions!.keepAlive(request.session!, call())).toBe("gone");
    expect(await nodesOf(hand, name)).toEqual([]);
  });

  it("finds waiters again that it had told nothing: a release meanwhile is not missed", async () => {
    const name = freshName();
    const proxy = await proxyTo(server);
    const [a, b] = [await openOn([at(proxy)]), await openOn(server.url)];
    const held = await take(b, (await requester(b))(name));
    const ticket = await queueOf(a).enqueue((await requester(a))(name), call());
    const before = await server.watches();
    const turn = ticket.turn(call(20_000).signal);
    await until("it watches", async () => (await server.watches()) > before);
    proxy.silence("reply");
    await b.release([held], call());
    proxy.cut();
    await proxy.heal();
    expect(await turn).toMatchObject({ name });
  });
});
