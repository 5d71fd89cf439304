import { spawn } from "node:child_process";
import { once } from "node:events";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { LeaseLostError, OutcomeUnknownError } from "../../../src/core/errors.js";
import { bundledChild } from "../../servers/bundle.js";
import { describeOn } from "../../servers/find.js";
import { startZookeeper, zookeeperProgram, type ZookeeperServer } from "../../servers/zookeeper.js";
import {
  at,
  call,
  deleteNode,
  folderOf,
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

describeOn(zookeeperProgram, "lines of a zookeeper server", () => {
  let server: ZookeeperServer;
  beforeAll(async () => {
    // Looks after empty folders every 300 ms, and not once a minute.
    const properties = { "znode.container.checkIntervalMs": "300" };
    server = await startZookeeper({}, properties);
  });
  afterAll(() => server.dispose());

  it("does not grant the third in line when the second dies (case 45)", async () => {
    const name = freshName();
    const [a, b, c] = [
      await openOn(server.url),
      await openOn(server.url),
      await openOn(server.url),
    ];
    const held = await take(a, (await requester(a))(name));
    const second = (await requester(b))(name);
    await queueOf(b).enqueue(second, call());
    const ticket = await queueOf(c).enqueue((await requester(c))(name), call());
    let turned = false;
    const turn = ticket.turn(call(20_000).signal).finally(() => (turned = true));
    const before = await server.watches();
    await b.sessions!.close(second.session!, call());
    expect(await queueOf(c).touch([ticket], call())).toEqual(["waiting"]);
    // It now watches the holder, whom the second had watched.
    await until("the third watches another node", async () => (await server.watches()) >= before);
    expect(turned).toBe(false);
    await a.release([held], call());
    const next = await turn;
    expect(next !== "gone" && next.token > held.token).toBe(true);
  });

  it("grants one of twenty attempts under one session (case 29)", async () => {
    const name = freshName();
    const backend = await openOn(server.url);
    const request = await requester(backend);
    const attempts = Array.from({ length: 20 }, async () => backend.acquire(request(name), call()));
    const answers = await Promise.all(attempts);
    const grants = answers.flatMap((answer) => ("grant" in answer ? [answer.grant] : []));
    expect(grants).toHaveLength(1);
    expect(await backend.renew(grants, call())).toEqual(["renewed"]);
    expect(await nodesOf(handOn(server.url), name)).toHaveLength(1);
  });

  it("forgets what was deleted by hand: a lease, and the place of a waiter", async () => {
    const name = freshName();
    const hand = handOn(server.url);
    const backend = await openOn(server.url);
    const request = await requester(backend);
    const remove = async (at: number): Promise<void> => {
      const nodes = [...(await nodesOf(hand, name))!].sort(
        (a, b) => Number(a.slice(-10)) - Number(b.slice(-10)),
      );
      await deleteNode(hand, `${folderOf(name)}/${nodes[at]}`);
    };
    const held = await take(backend, request(name));
    const wanted = request(name);
    const [first, second] = [
      await queueOf(backend).enqueue(wanted, call()),
      await queueOf(backend).enqueue(request(name), call()),
    ];
    const end = second.turn(call().signal);
    await remove(2);
    // Its watch is on the one before it: it is told when that one changes, or when it asks.
    expect(await queueOf(backend).touch([second], call())).toEqual(["gone"]);
    expect(await end).toBe("gone");
    await remove(1);
    expect(await first.turn(call().signal)).toBe("gone");
    // Known no more, it gets another place.
    const again = await queueOf(backend).enqueue(wanted, call());
    expect(await queueOf(backend).touch([again], call())).toEqual(["waiting"]);
    await again.leave(call());
    expect(backend.proof(held)).toMatchObject({ path: expect.any(String) as string });
    await remove(0);
    expect(await backend.renew([held], call())).toEqual([{ lost: "absent" }]);
    expect(() => backend.proof(held)).toThrow(/not held any more/);
    expect(await backend.release([held], call())).toEqual(["not-held"]);
  });

  it("tells the holder within one renewal that its node was deleted (case 5)", async () => {
    const name = freshName();
    const tenure = await tenureOn(server.url);
    const hand = handOn(server.url);
    const ttlMs = 6_000;
    const lease = await tenure.acquire(name, { ttl: ttlMs });
    const lost = once(lease.signal, "abort");
    const [node] = (await nodesOf(hand, name))!;
    await deleteNode(hand, `${folderOf(name)}/${node}`);
    await lost;
    expect(lease.signal.reason).toBeInstanceOf(LeaseLostError);
    // By its clock it had time left: it was the record that was missed.
    expect((lease.signal.reason as LeaseLostError).reason).toBe("absent");
  });

  /** An attempt behind a holder, whose `create` the server has carried out and cannot answer. */
  async function unanswered() {
    const name = freshName();
    const proxy = await proxyTo(server);
    const [backend, other] = [await openOn(at(proxy)), await openOn(server.url)];
    const hand = handOn(server.url);
    const held = await take(other, (await requester(other))(name));
    const request = (await requester(backend))(name);
    const within = new AbortController();
    proxy.silence("reply");
    const attempt = queueOf(backend).enqueue(request, {
      signal: within.signal,
      timeoutMs: 10_000,
    });
    attempt.catch(() => undefined);
    await until("the server has made the node", async () => {
      return (await nodesOf(hand, name))?.length === 2;
    });
    return { name, proxy, backend, other, hand, held, request, within, attempt };
  }

  it("finds the node whose answer was lost, and stands behind nobody (case 20)", async () => {
    const { name, proxy, backend, other, hand, held, attempt } = await unanswered();
    proxy.cut();
    await proxy.heal();
    const ticket = await attempt;
    expect(await nodesOf(hand, name)).toHaveLength(2);
    await other.release([held], call());
    const offer = await ticket.turn(call().signal);
    if (offer === "gone") throw new Error("the place is gone");
    expect(await backend.renew([offer], call())).toEqual(["renewed"]);
    expect((await backend.inspect(name, call()))?.token).toBe(offer.token);
  });

  it("undoes an attempt whose answer was lost, in the session that made it (case 20)", async () => {
    const { name, proxy, backend, hand, request, within, attempt } = await unanswered();
    within.abort(new Error("given up"));
    proxy.cut();
    await expect(attempt).rejects.toThrow(OutcomeUnknownError);
    await proxy.heal();
    const undo = { name, holder: request.holder };
    expect(await backend.release([undo], call())).toEqual(["released"]);
    expect(await nodesOf(hand, name)).toHaveLength(1);
    expect(await backend.release([undo], call())).toEqual(["not-held"]);
  });

  it("tells a release whose answer was lost as one when it is asked for again (case 27)", async () => {
    const name = freshName();
    const proxy = await proxyTo(server);
    const backend = await openOn(at(proxy));
    const hand = handOn(server.url);
    const held = await take(backend, (await requester(backend))(name));
    expect(await nodesOf(hand, name)).toHaveLength(1);
    const within = new AbortController();
    proxy.silence("reply");
    const release = (async () =>
      backend.release([held], { signal: within.signal, timeoutMs: 10_000 }))();
    release.catch(() => undefined);
    await until("the server has deleted the node", async () => {
      return ((await nodesOf(hand, name)) ?? []).length === 0;
    });
    within.abort(new Error("given up"));
    proxy.cut();
    await expect(release).rejects.toThrow(OutcomeUnknownError);
    await proxy.heal();
    // By its own hand and no other: not what a lease comes to that somebody has taken away.
    expect(await backend.release([held], call())).toEqual(["released"]);
  });

  it("deletes what an earlier session left of the same attempt, and never adopts it", async () => {
    const name = freshName();
    const backend = await openOn(server.url);
    const first = (await requester(backend))(name, "same");
    const second = (await requester(backend))(name, "same");
    expect(first.session).not.toBe(second.session);
    const old = await take(backend, first);
    const grant = await take(backend, second);
    expect(grant.token).toBeGreaterThan(old.token);
    expect(await backend.renew([old], call())).toEqual([{ lost: "absent" }]);
    expect(await nodesOf(handOn(server.url), name)).toHaveLength(1);
  });

  it("is refused a name that another took since it left it, and leaves nothing", async () => {
    const name = freshName();
    const [backend, other] = [await openOn(server.url), await openOn(server.url)];
    const [request, others] = [await requester(backend), await requester(other)];
    const hand = handOn(server.url);
    const first = await take(backend, request(name));
    await backend.release([first], call());
    const held = await take(other, others(name));
    for (let tries = 0; tries < 3; tries++) {
      const answer = await backend.acquire(request(name), call());
      expect(answer).toMatchObject({ held: { holder: held.holder, token: held.token } });
      expect(await nodesOf(hand, name)).toHaveLength(1);
    }
    await other.release([held], call());
    expect((await take(backend, request(name))).token).toBeGreaterThan(held.token);
    // The fourth node: the name was free when it left, so its first try did not look. The next did.
    // Fewer where the server has removed the empty folder meanwhile, as it does once a minute.
    expect(await nodesOf(hand, name)).toEqual([expect.stringMatching(/~000000000[0-3]$/)]);
  });

  it("keeps one watch for each waiter, and none of those who left (case 24)", async () => {
    const name = freshName();
    const backend = await openOn(server.url);
    const request = await requester(backend);
    const held = await take(backend, request(name));
    const before = await server.watches();
    const tickets = [];
    for (let i = 0; i < 50; i++)
      tickets.push(await queueOf(backend).enqueue(request(name), call()));
    const stop = new AbortController();
    const turns = tickets.map((ticket) => ticket.turn(stop.signal));
    const ends = Promise.allSettled(turns);
    const watches = async (): Promise<number> => (await server.watches()) - before;
    await until("each waiter watches one node", async () => (await watches()) === 50);
    for (const ticket of tickets.slice(10, 20)) await ticket.leave(call());
    await until("the watches of those who left are gone", async () => (await watches()) === 40);
    await backend.release([held], call());
    const offer = await turns[0];
    expect(offer).toMatchObject({ holder: tickets[0]!.holder });
    expect(await watches()).toBe(39);
    stop.abort(new Error("enough"));
    await ends;
  });

  it("goes on with higher tokens in a folder made anew, whose numbers start again", async () => {
    const name = freshName();
    const backend = await openOn(server.url);
    const hand = handOn(server.url);
    const request = await requester(backend);
    const first = await take(backend, request(name));
    const [node] = (await nodesOf(hand, name))!;
    expect(node).toMatch(/~0000000000$/);
    await backend.release([first], call());
    await until("the server removes the empty folder (case 33)", async () => {
      return (await nodesOf(hand, name)) === undefined;
    });
    const second = await take(backend, request(name));
    expect((await nodesOf(hand, name))![0]).toMatch(/~0000000000$/);
    expect(second.token).toBeGreaterThan(first.token);
  });

  describe("with a process of its own", () => {
    it("frees the lease of a killed process within its TTL (case 7)", async () => {
      const name = freshName();
      const ttlMs = 3_000;
      const child = startChild(server.url, name, ttlMs);
      const [line] = (await once(child.stdout, "data")) as [Buffer];
      const tenure = await tenureOn(server.url);
      const next = tenure.acquire(name);
      child.kill("SIGKILL");
      await once(child, "close");
      const killedAt = performance.now();
      expect((await next).token).toBeGreaterThan(BigInt(String(line).trim()));
      // A tick of the server, and what a busy machine needs.
      expect(performance.now() - killedAt).toBeLessThan(ttlMs + 2_000);
    });
  });
});

function startChild(url: string, name: string, ttlMs: number) {
  const bundle = bundledChild(import.meta.dirname);
  const child = spawn(process.execPath, [bundle, url, name, String(ttlMs)], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  return child;
}
