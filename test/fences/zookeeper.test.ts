import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { zookeeper } from "../../src/backends/zookeeper/open.js";
import { LeaseLostError, StaleTokenError, UnavailableError } from "../../src/core/errors.js";
import { Tenure } from "../../src/core/tenure.js";
import { zookeeperClient, type ZookeeperClient } from "../../src/drivers/zookeeper/client.js";
import { zookeeperFaults } from "../../src/drivers/zookeeper/errors.js";
import { zookeeperFence } from "../../src/fences/zookeeper/open.js";
import { encodeSegment, zookeeperStore } from "../../src/fences/zookeeper/store.js";
import type { ZookeeperReadTx, ZookeeperTx } from "../../src/fences/zookeeper/transaction.js";
import { platform } from "../../src/platform/index.js";
import { describeOn } from "../servers/find.js";
import {
  startEnsemble,
  startZookeeper,
  zookeeperProgram,
  type ZookeeperServer,
} from "../servers/zookeeper.js";
import { bearer } from "./bearers.js";
import { fenceSuite } from "./suite.js";

const call = { timeoutMs: 10_000, signal: new AbortController().signal };

async function make(client: ZookeeperClient, path: string): Promise<void> {
  const data = new Uint8Array();
  await client.use(call, (session) =>
    session.commit([{ kind: "create", path, data, mode: "persistent" }], call),
  );
}

function suite(title: string, start: () => Promise<{ url: string; dispose(): unknown }>): void {
  describe(title, () => {
    let server: Awaited<ReturnType<typeof start>>;
    let client: ZookeeperClient;
    let count = 0;
    beforeAll(async () => {
      server = await start();
      client = zookeeperClient(server.url);
    });
    afterAll(async () => {
      await client.close();
      await server.dispose();
    });
    fenceSuite<ZookeeperTx, ZookeeperReadTx>({
      name: title,
      work: "async",
      open: async () => {
        const base = `/fence${count++}`;
        await make(client, base);
        await make(client, `${base}/data`);
        const path = (resource: string): string => `${base}/data/${encodeSegment(resource)}`;
        const store = zookeeperStore({
          client,
          faults: zookeeperFaults,
          timers: platform().timers,
          base,
        });
        const get = async (tx: ZookeeperReadTx, resource: string): Promise<number | undefined> => {
          const text = (await tx.get(path(resource)))?.data.toString() ?? "";
          return text === "" ? undefined : Number(text);
        };
        const put = (tx: ZookeeperTx, resource: string, value: number): void =>
          tx.set(path(resource), String(value));
        return {
          store: {
            ...store,
            // A node cannot be set that is not there: each resource has an empty one to begin with.
            arm: async (request, within) => {
              await make(client, path(request.resource));
              return store.arm(request, within);
            },
          },
          get,
          put,
          add: async (tx, resource, amount) => {
            const sum = ((await get(tx, resource)) ?? 0) + amount;
            put(tx, resource, sum);
            return sum;
          },
          loseMark: async (resource) => {
            const mark = `${base}/fences/${encodeSegment(resource)}`;
            await client.use(call, (session) =>
              session.commit([{ kind: "delete", path: mark, version: -1 }], call),
            );
          },
          close: async () => undefined,
        };
      },
    });
  });
}

describeOn(zookeeperProgram, "zookeeper fence", () => {
  suite("alone", () => startZookeeper());
  suite("ensemble", () => startEnsemble());

  describe("with leases of the same store", () => {
    let server: ZookeeperServer;
    beforeAll(async () => void (server = await startZookeeper()));
    afterAll(() => server.dispose());

    async function bench() {
      const client = zookeeperClient(server.url);
      const fence = zookeeperFence(client);
      const a = await Tenure.open(zookeeper(server.url), platform());
      const b = await Tenure.open(zookeeper(server.url), platform());
      const read = (path: string): Promise<string | undefined> =>
        client.use(call, async (session) => {
          return (await session.node(path, call, { fresh: true }))?.data.toString();
        });
      const close = async (): Promise<void> => {
        await Promise.all([a.close(), b.close()]);
        await fence.close();
        await client.close();
      };
      return { client, fence, a, b, read, close };
    }

    it("refuses the write of a holder whose lease was broken, and lets the next one write", async () => {
      const { client, fence, a, b, read, close } = await bench();
      await make(client, "/balance");
      const old = await a.acquire("account/7");
      const stale = await fence.arm(old, "balance");
      await stale.write((tx) => tx.set("/balance", "1"));
      await b.break("account/7", { token: old.token, reason: "test" });
      const next = await b.acquire("account/7");
      expect(next.token).toBeGreaterThan(old.token);
      const handle = await fence.arm(next, "balance");
      await expect(stale.write((tx) => tx.set("/balance", "2"))).rejects.toThrow(StaleTokenError);
      await handle.write((tx) => tx.set("/balance", "3"));
      expect(await read("/balance")).toBe("3");
      await close();
    });

    it("held: writes while the lease's node is there, and changes nothing after", async () => {
      const { fence, a, b, read, close } = await bench();
      const lease = await a.acquire("é/~%7E.held");
      await fence.held(lease, (tx) => tx.create("/held", "1"));
      expect(await read("/held")).toBe("1");
      let isRun = false;
      const late = fence.held(lease, async (tx) => {
        isRun = true;
        tx.set("/held", "2");
        // Between the look at the lease and the write: the transaction has the last word.
        await b.break(lease.name, { token: lease.token, reason: "test" });
      });
      await expect(late).rejects.toThrow(LeaseLostError);
      expect(isRun).toBe(true);
      await expect(fence.held(lease, () => undefined)).rejects.toThrow(LeaseLostError);
      await expect(fence.held(bearer(7n), () => undefined)).rejects.toThrow(LeaseLostError);
      expect(await read("/held")).toBe("1");
      await close();
    });

    it("makes all changes of a write or none, and says which one was refused", async () => {
      const { client, fence, read, close } = await bench();
      await make(client, "/one");
      const handle = await fence.arm(bearer(5n), "pair");
      const write = handle.write((tx) => {
        tx.set("/one", "changed");
        tx.create("/no/such/parent");
      });
      await expect(write).rejects.toThrow(/create of "\/no\/such\/parent" was refused \(no-node\)/);
      await expect(write).rejects.toThrow(UnavailableError);
      expect(await read("/one")).toBe("");
      const value = await handle.read((tx) => tx.get("/one"));
      await handle.write((tx) => tx.set("/one", "new", value!.version));
      await expect(handle.write((tx) => tx.check("/one", value!.version))).rejects.toThrow(
        /bad-version/,
      );
      expect(await read("/one")).toBe("new");
      for (const bad of ["one", "/", "//one", 7 as never]) {
        await expect(handle.write((tx) => tx.delete(bad))).rejects.toThrow(/path must be/);
      }
      await close();
    });

    it("keeps its marks within its chroot, where a URL names one", async () => {
      const fence = zookeeperFence(`${server.url}/apps/shop`);
      const handle = await fence.arm(bearer(5n), "a/b");
      await handle.write((tx) => tx.create("/cart", "full"));
      expect((await handle.read((tx) => tx.get("/cart")))?.data.toString()).toBe("full");
      await fence.close();
      const { read, close } = await bench();
      expect(await read("/apps/shop/cart")).toBe("full");
      expect(await read("/apps/shop/tenure/fences/a%2Fb")).toContain('"token":"5"');
      await close();
    });
  });
});
