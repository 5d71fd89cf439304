import { Cluster } from "ioredis";
import { createCluster } from "redis";
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { Keys, slotOf } from "../../../src/backends/redis/keys.js";
import { redis, type RedisClient, type RedisSettings } from "../../../src/backends/redis/open.js";
import { connect } from "../../../src/connect.js";
import { UnavailableError } from "../../../src/core/errors.js";
import type { Lease } from "../../../src/core/lease.js";
import type { Tenure } from "../../../src/core/tenure.js";
import { describeOn } from "../../servers/find.js";
import {
  disposeAll,
  redisProgram,
  startRedisCluster,
  type RedisServer,
} from "../../servers/redis.js";
import { libraries, until, waitersOf, type Library } from "./bench.js";

const keys = new Keys("tenure:");

describeOn(redisProgram, "redis backend on a cluster", () => {
  let nodes: readonly RedisServer[];
  beforeAll(async () => {
    // Otherwise one node that is down takes the others along.
    nodes = await startRedisCluster(3, {
      "cluster-require-full-coverage": "no",
      "cluster-node-timeout": 20_000,
    });
  });
  afterAll(() => disposeAll(nodes));
  const open: Tenure[] = [];
  afterEach(async () => {
    for (const tenure of open.splice(0)) await tenure.close().catch(() => undefined);
  });

  async function tenure(library: Library, settings: RedisSettings = {}): Promise<Tenure> {
    const client: RedisClient =
      library === "ioredis"
        ? new Cluster(
            nodes.map(({ port }) => ({ host: "127.0.0.1", port })),
            { lazyConnect: true },
          )
        : createCluster({ rootNodes: nodes.map(({ url }) => ({ url })) });
    const opened = await connect(redis(client, settings), { timeout: 30_000 });
    open.push(opened);
    return opened;
  }

  /** A lease whose grant did not leave before the epoch was told: that has a tenth of a second. */
  async function toldEpoch(locks: Tenure, name: string): Promise<Lease> {
    for (;;) {
      const lease = await locks.acquire(name);
      if (lease.storeEpoch !== undefined) return lease;
      await lease.release();
    }
  }

  /** The node that has a name. */
  function nodeOf(name: string): RedisServer {
    return nodes[Math.floor((slotOf(keys.lease(name)) * nodes.length) / 16_384)]!;
  }

  it.each(libraries)("tells the epoch of the node that granted (%s)", async (library) => {
    const locks = await tenure(library);
    const names = Array.from({ length: 20 }, (_, i) => `epoch ${library} ${i}`);
    const leases = await Promise.all(names.map((name) => toldEpoch(locks, name)));
    const seen = new Set(leases.map(({ storeEpoch }) => storeEpoch));
    expect(seen.size).toBe(nodes.length);
    for (const { name, storeEpoch } of leases) {
      expect(storeEpoch).toBe((await nodeOf(name).info("replication"))["master_replid"]);
    }
  });

  it.each(libraries)("asks the replicas of the node that granted (%s)", async (library) => {
    const locks = await tenure(library, { replicas: 1 });
    await until("it to know the nodes", async () => {
      const trying = locks.tryAcquire(`replicas ${library}`);
      const refused: unknown = await trying.catch((error: unknown) => error);
      expect(refused).toBeInstanceOf(UnavailableError);
      // Nodes have half a second to say which slots they have.
      if (/does not answer/.test(String(refused))) return false;
      expect(String(refused)).toMatch(/reached 0 of the 1 replicas/);
      return true;
    });
    expect(await locks.inspect(`replicas ${library}`)).toBeNull();
  });

  it.each(libraries)("hands over by sharded channels, in order (%s)", async (library) => {
    const clients = [await tenure(library), await tenure(library), await tenure(library)];
    const name = `handed ${library}`;
    const order: number[] = [];
    const held = await clients[0]!.acquire(name);
    const waiting: Promise<void>[] = [];
    for (let i = 0; i < 9; i++) {
      waiting.push(
        clients[i % 3]!.hold(name, {}, () => {
          order.push(i);
        }),
      );
      await until("its place", async () => (await waitersOf(clients[0]!, name)) === i + 1);
    }
    await nodeOf(name).command("CONFIG", "RESETSTAT");
    await held.release();
    await Promise.all(waiting);
    expect(order).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8]);
    expect((await nodeOf(name).calls()).get("spublish")).toBe(9);
  });

  it.each(libraries)("hands over in order while the slot of a name moves to another node (%s)", async (library) => {
    const name = `moving ${library}`;
    const [lease, line, waiters] = keys.ofQueue(name);
    const slot = slotOf(lease);
    const from = nodeOf(name);
    const to = nodes.find((node) => node !== from)!;
    const idOf = async (node: RedisServer): Promise<string> =>
      String(await node.command("CLUSTER", "MYID"));
    const move = (key: string): Promise<unknown> =>
      from.command("MIGRATE", "127.0.0.1", to.port, key, 0, 5_000);
    const clients = [await tenure(library), await tenure(library)];
    /** While its keys are at two nodes they are asked for again and again. */
    const released = async (given: Lease): Promise<void> => {
      const release = async (): Promise<boolean> => (await given.release()) === "released";
      await until("the release", () => release().catch(() => false));
    };
    const held = await clients[0]!.acquire(name);
    const order: number[] = [];
    const leases: Promise<Lease>[] = [];
    for (let i = 0; i < 4; i++) {
      const waiting = clients[i % 2]!.acquire(name).then((granted) => {
        order.push(i);
        return granted;
      });
      waiting.catch(() => undefined);
      leases.push(waiting);
      await until("its place", async () => (await waitersOf(clients[0]!, name)) === i + 1);
    }
    await to.command("CLUSTER", "SETSLOT", slot, "IMPORTING", await idOf(from));
    await from.command("CLUSTER", "SETSLOT", slot, "MIGRATING", await idOf(to));
    await released(held);
    const first = await leases[0]!;
    await move(line);
    await first.renew();
    await expect(first.release()).rejects.toThrow(/TRYAGAIN|redirections/);
    await move(waiters);
    await move(lease);
    await released(first);
    const second = await leases[1]!;
    for (const node of [to, from]) {
      await node.command("CLUSTER", "SETSLOT", slot, "NODE", await idOf(to));
    }
    await released(second);
    for (const next of leases.slice(2)) await released(await next);
    expect(order).toEqual([0, 1, 2, 3]);
    expect(await to.command("EXISTS", line, waiters)).toBe(0);
  });

  it.each(libraries)("renews leases of all slots, whatever one node does (%s)", async (library) => {
    const locks = await tenure(library);
    const names = Array.from({ length: 12 }, (_, i) => `renewed ${library} ${i}`);
    const leases = await Promise.all(names.map((name) => locks.acquire(name, { ttl: 8_000 })));
    const [frozen] = nodes;
    const waiting = leases.map(({ name }) => locks.acquire(name).catch(() => undefined));
    await until("their places", async () => {
      const seen = await Promise.all(names.map((name) => waitersOf(locks, name)));
      return seen.every((count) => count === 1);
    });
    await frozen!.freeze();
    try {
      const others = leases.filter(({ name }) => nodeOf(name) !== frozen);
      expect(others.length).toBeGreaterThan(0);
      expect(others.length).toBeLessThan(leases.length);
      // Longer than the grants last: only renewals keep them.
      const from = performance.now();
      await until("the frozen node's leases to end", () =>
        leases.every((lease) => others.includes(lease) || lease.state === "lost"),
      );
      await until("the TTL", () => performance.now() - from > 8_100);
      for (const lease of others) expect(lease.signal.aborted, lease.name).toBe(false);
      await until("the others to be renewed", () => others.every(({ state }) => state === "held"));
      for (const lease of others) {
        await lease.release();
        const next = await waiting[leases.indexOf(lease)];
        expect(next?.token).toBeGreaterThan(lease.token);
      }
    } finally {
      await frozen!.thaw();
    }
  });
});
