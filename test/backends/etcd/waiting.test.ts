import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { NotAcquiredError } from "../../../src/core/errors.js";
import type { Lease } from "../../../src/core/lease.js";
import { bundledChild } from "../../servers/bundle.js";
import { etcdProgram, startEtcd, type EtcdServer } from "../../servers/etcd.js";
import { describeOn } from "../../servers/find.js";
import { backendOn, call, contenders, eventually, request, session, tenureOn } from "./rig.js";

describeOn(etcdProgram, "waiting on the etcd backend", () => {
  let server: EtcdServer;
  const bundle = bundledChild(import.meta.dirname);
  beforeAll(async () => {
    server = await startEtcd();
  });
  afterAll(async () => {
    await server.dispose();
  });

  const watchers = (): Promise<number> => server.metric("etcd_debugging_mvcc_watcher_total");

  it("confirms an offer by one request; what it keeps for that ends with the grant", async () => {
    const asked: string[] = [];
    const backend = await backendOn(server.url, {
      ask: (path, _body, _options, onward) => {
        asked.push(path);
        return onward();
      },
    });
    if (backend.waiting.kind !== "queue") throw new Error("no queue");
    const under = await session(backend);
    for (const [name, isCopy] of [["one", false], ["copy", true]] as const) {
      const ticket = await backend.waiting.enqueue(request(name, under), call);
      const grant = await ticket.turn(call.signal);
      if (grant === "gone") throw new Error("no offer");
      asked.length = 0;
      // Nothing is known of a copy, and so the record is read first.
      expect(await backend.renew([isCopy ? { ...grant } : grant], call)).toEqual(["renewed"]);
      expect(asked).toEqual(isCopy ? ["kv/txn", "kv/txn"] : ["kv/txn"]);
      expect(await backend.renew([grant], call)).toEqual(["renewed"]);
      expect(await backend.release([grant], call)).toEqual(["released"]);
    }
  });

  it("keeps one watch for each of 50 waiters, wakes one by a release, and none is left", async () => {
    const clients = await Promise.all(Array.from({ length: 5 }, () => tenureOn(server.url)));
    let lease = await clients[0]!.acquire("crowd");
    const order: number[] = [];
    const waiting: Promise<Lease>[] = [];
    for (let i = 0; i < 50; i++) {
      const one = clients[i % 5]!.acquire("crowd").then((granted) => {
        order.push(i);
        return granted;
      });
      waiting.push(one);
      await eventually(
        "its place",
        async () => (await contenders(server, "crowd")).length === i + 2,
      );
    }
    await eventually("50 watches", async () => (await watchers()) === 50);
    // As often as the waiters say that they live, they do not watch anew.
    for (let i = 0; i < 10; i++) {
      expect(await watchers()).toBeLessThanOrEqual(50 - i);
      await lease.release();
      lease = await waiting[i]!;
      expect(order).toHaveLength(i + 1);
    }
    for (const client of clients) {
      for (const one of waiting) one.catch(() => undefined);
      await client.close();
    }
    expect(order).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    await eventually("no watches", async () => (await watchers()) === 0);
    expect(await contenders(server, "crowd")).toEqual([]);
  });

  it("goes on when the revision to watch from was compacted away", async () => {
    const backend = await backendOn(server.url);
    if (backend.waiting.kind !== "queue") throw new Error("no queue");
    const own = await session(backend);
    const held = await backend.acquire(request("compacted", own), call);
    if (!("grant" in held)) throw new Error("a free name was refused");
    const ticket = await backend.waiting.enqueue(request("compacted", own), call);
    for (let i = 0; i < 3; i++) await server.call("kv/put", { key: "eA==" });
    const { header } = await server.call("kv/range", { key: "eA==" });
    await server.call("kv/compaction", { revision: header.revision, physical: true });
    const before = await watchers();
    const turn = ticket.turn(new AbortController().signal);
    await eventually("a watch", async () => (await watchers()) > before);
    await backend.release([held.grant], call);
    const offer = await turn;
    if (offer === "gone") throw new Error("the place is gone");
    expect(await backend.renew([offer], call)).toEqual(["renewed"]);
  });

  it("leaves nothing of a waiter that gave up, and the next one is served (cases 17, 45)", async () => {
    const [a, b] = [await tenureOn(server.url), await tenureOn(server.url)];
    const held = await a.acquire("given up");
    const second = b.acquire("given up", { wait: 1_500 });
    await eventually("two", async () => (await contenders(server, "given up")).length === 2);
    const third = a.acquire("given up");
    await eventually("three", async () => (await contenders(server, "given up")).length === 3);
    await expect(second).rejects.toThrow(NotAcquiredError);
    await expect(second).rejects.toMatchObject({ held: { token: held.token } });
    await eventually("it left", async () => (await contenders(server, "given up")).length === 2);
    await held.release();
    expect((await third).token).toBeGreaterThan(held.token);
  });

  it("passes over a waiter whose process was killed, and frees a killed holder's lease within its TTL (cases 23, 7, 8)", async () => {
    const tenure = await tenureOn(server.url);
    const child = () => {
      const started = spawn(process.execPath, [bundle, server.url, "killed"], {
        stdio: ["ignore", "pipe", "inherit"],
      });
      onTestFinished(() => void started.kill("SIGKILL"));
      return started;
    };
    const holder = child();
    const [line] = (await once(createInterface({ input: holder.stdout }), "line")) as [string];
    const waiter = child();
    await eventually("a waiter", async () => (await contenders(server, "killed")).length === 2);
    const waiting = tenure.acquire("killed");
    await eventually("another", async () => (await contenders(server, "killed")).length === 3);
    waiter.kill("SIGKILL");
    holder.kill("SIGKILL");
    const killedMs = performance.now();
    const lease = await waiting;
    // A TTL of 2 s, and the look of the server for what has expired.
    expect(performance.now() - killedMs).toBeLessThan(2_000 + 2_000);
    expect(lease.token).toBeGreaterThan(BigInt(line));
  });
});
