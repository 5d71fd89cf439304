import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Backend, Grant } from "../../src/core/backend.js";
import { LeaseLostError, StaleTokenError, UnavailableError } from "../../src/core/errors.js";
import { consul } from "../../src/backends/consul/open.js";
import { openConsul } from "../../src/drivers/consul/open.js";
import { consulStore } from "../../src/fences/consul/index.js";
import { consulFence } from "../../src/fences/consul/open.js";
import type { ConsulReader, ConsulTx } from "../../src/fences/consul/transaction.js";
import { consulProgram, startConsul, type ConsulServer } from "../servers/consul.js";
import { describeOptional } from "../servers/find.js";
import { bearer } from "./bearers.js";
import { fenceSuite } from "./suite.js";

describeOptional(consulProgram, "consul fence", () => {
  let server: ConsulServer;
  let count = 0;
  beforeAll(async () => void (server = await startConsul()));
  afterAll(() => server.dispose());

  const valueKey = (prefix: string, resource: string): string =>
    `${prefix}/value/${encodeURIComponent(resource)}`;

  fenceSuite<ConsulTx, ConsulReader>({
    name: "consul fence",
    work: "async",
    open: async () => {
      const prefix = `fence${count++}`;
      const { client } = openConsul(server.url, {});
      const get = async (tx: ConsulReader, resource: string): Promise<number | undefined> => {
        const text = await tx.get(valueKey(prefix, resource));
        return text === null ? undefined : Number(text);
      };
      return {
        store: consulStore(client, prefix),
        get,
        put: (tx, resource, value) => tx.set(valueKey(prefix, resource), String(value)),
        add: async (tx, resource, amount) => {
          const sum = ((await get(tx, resource)) ?? 0) + amount;
          tx.set(valueKey(prefix, resource), String(sum));
          return sum;
        },
        loseMark: async (resource) => {
          await server.call("DELETE", `kv/${prefix}/mark/${resource}`);
        },
        close: async () => client.close(),
      };
    },
  });

  describe("a write", () => {
    it("takes several keys, bytes and deletions in one step", async () => {
      const fence = consulFence(server.url, { prefix: "several" });
      const handle = await fence.arm(bearer(7n), "r");
      await handle.write((tx) => {
        tx.set("app/a", "one");
        tx.set("app/b", new Uint8Array([0, 255, 128]));
        tx.set("app/tree/1", "x");
        tx.set("app/tree/2", "x");
      });
      await handle.write((tx) => {
        tx.delete("app/a");
        tx.deleteTree("app/tree/");
      });
      await handle.read(async (tx) => {
        expect(await tx.get("app/a")).toBeNull();
        expect(await tx.getBytes("app/b")).toEqual(Buffer.from([0, 255, 128]));
      });
      expect(await server.keys("app/")).toEqual(["app/b"]);
    });

    it("is not applied when an unfenced path changed what it had read", async () => {
      const fence = consulFence(server.url, { prefix: "unfenced" });
      const handle = await fence.arm(bearer(7n), "r");
      await handle.write((tx) => tx.set("app/stock", "5"));
      const late = handle.write(async (tx) => {
        const stock = Number(await tx.get("app/stock"));
        await server.call("PUT", "kv/app/stock", 9);
        tx.set("app/stock", String(stock - 1));
      });
      await expect(late).rejects.toThrow(UnavailableError);
      await expect(late).rejects.toThrow(/"app\/stock" has changed/);
      expect(await handle.read((tx) => tx.get("app/stock"))).toBe("9");
      expect(handle.arm).toBe(1);
    });

    it("tells work that reads too late, in the middle of it", async () => {
      const fence = consulFence(server.url, { prefix: "middle" });
      const old = await fence.arm(bearer(7n), "r");
      const seen: unknown[] = [];
      const late = old.write(async (tx) => {
        await fence.arm(bearer(8n), "r");
        seen.push(await tx.get("app/x"));
      });
      await expect(late).rejects.toThrow(StaleTokenError);
      expect(seen).toEqual([]);
    });

    it("names what is wrong with its arguments, and sends nothing", async () => {
      const fence = consulFence(server.url, { prefix: "wrong" });
      const handle = await fence.arm(bearer(7n), "r");
      const many = Array.from({ length: 121 }, (_, i) => `app/many/${i}`);
      await expect(handle.write((tx) => tx.set("", "x"))).rejects.toMatchObject({ option: "key" });
      await expect(handle.write((tx) => tx.set("k", 5 as never))).rejects.toMatchObject({
        option: "value",
      });
      await expect(
        handle.write((tx) => many.forEach((key) => tx.set(key, "x"))),
      ).rejects.toMatchObject({ option: "work" });
      expect(await server.keys("app/many/")).toEqual([]);
      await handle.write((tx) => many.slice(1).forEach((key) => tx.set(key, "x")));
      expect(await server.keys("app/many/")).toHaveLength(120);
    });

    it("takes nothing else at its key for a mark", async () => {
      await server.call("PUT", "kv/foreign/mark/r", "hello");
      const fence = consulFence(server.url, { prefix: "foreign" });
      await expect(fence.arm(bearer(7n), "r")).rejects.toThrow(/foreign\/mark\/r.*no mark/);
    });
  });

  describe("held check", () => {
    async function granted(backend: Backend, name: string): Promise<Grant> {
      const call = { signal: new AbortController().signal, timeoutMs: 10_000 };
      await backend.open?.(call);
      const { id: session } = await backend.sessions!.open(60_000, call);
      const answer = await backend.acquire({ name, holder: "h1", ttlMs: 60_000, session }, call);
      if (!("grant" in answer)) throw new Error("the name is held");
      return answer.grant;
    }

    it("writes while the record stands, and nothing after it", async () => {
      const backend = consul(server.url, { prefix: "held-lease" });
      const grant = await granted(backend, "acct: 7/é");
      const lease = { ...grant, storeId: backend.storeId };
      const fence = consulFence(server.url, { prefix: "held", leasePrefix: "held-lease" });
      const add = async (tx: ConsulTx): Promise<number> => {
        const sum = Number((await tx.get("app/sum")) ?? 0) + 1;
        tx.set("app/sum", String(sum));
        return sum;
      };
      expect(await fence.held(lease, add)).toBe(1);
      const stranger = fence.held({ ...lease, holder: "h2" }, add);
      await expect(stranger).rejects.toThrow(LeaseLostError);
      const between = fence.held(lease, async (tx) => {
        const sum = await add(tx);
        await server.endSession(grant.session!);
        return sum;
      });
      await expect(between).rejects.toThrow(LeaseLostError);
      await expect(fence.held(lease, add)).rejects.toThrow(LeaseLostError);
      expect(await server.call("GET", "kv/app/sum?raw")).toBe(1);
      await backend.close();
    });
  });
});
