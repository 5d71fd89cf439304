import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import type { EtcdGateway } from "../../src/fences/etcd/client.js";
import { createEtcdFence, type EtcdFence } from "../../src/fences/etcd/index.js";
import { etcdFence } from "../../src/fences/etcd/open.js";
import { etcd } from "../../src/backends/etcd/open.js";
import {
  LeaseLostError,
  OutcomeUnknownError,
  StaleTokenError,
  UnavailableError,
} from "../../src/core/errors.js";
import { Tenure } from "../../src/core/tenure.js";
import type { FencingToken } from "../../src/core/token.js";
import { etcdClient } from "../../src/drivers/etcd/open.js";
import type { EtcdClient } from "../../src/drivers/etcd/client.js";
import { platform } from "../../src/platform/index.js";
import { etcdProgram, startEtcd, type EtcdServer } from "../servers/etcd.js";
import { describeOn } from "../servers/find.js";
import { bearer } from "./bearers.js";

describeOn(etcdProgram, "etcd fence, beyond the suite", () => {
  let server: EtcdServer;
  let client: EtcdClient;
  let tenure: Tenure<FencingToken>;
  let fence: EtcdFence;
  let name = "";
  let count = 0;
  beforeAll(async () => {
    server = await startEtcd();
    client = etcdClient(server.url);
    tenure = await Tenure.open(etcd(client), platform(), {});
    fence = etcdFence(client);
  });
  afterAll(async () => {
    await tenure.close();
    client.close();
    await server.dispose();
  });
  beforeEach(() => void (name = `a/b ${++count}`));
  afterEach(async () => {
    await server.call("kv/deleterange", { key: base64("data/"), range_end: base64("data0") });
  });

  const base64 = (text: string): string => Buffer.from(text).toString("base64");
  const put = (key: string, value: string): Promise<unknown> =>
    server.call("kv/put", { key: base64(key), value: base64(value) });
  const value = async (key: string): Promise<string | undefined> => {
    const { kvs: [kv] = [] } = await server.call("kv/range", { key: base64(key) });
    return kv === undefined ? undefined : Buffer.from(kv.value ?? "", "base64").toString();
  };

  /** A fence whose transactions are each carried out a second time, when `again` is called. */
  function copied(): { readonly fence: EtcdFence; again(): Promise<void> } {
    const copies: (() => Promise<unknown>)[] = [];
    const gateway: EtcdGateway = {
      ask: (path, body, options) => {
        const onward = () => client.ask(path, body, options);
        if (options.isRead !== true) copies.push(onward);
        return onward();
      },
    };
    const made = createEtcdFence({ gateway, close: () => undefined, runtime: platform() });
    const again = async (): Promise<void> => {
      for (const copy of copies) await copy();
    };
    return { fence: made, again };
  }

  it("writes while the lease's record stands, and not a moment longer", async () => {
    const lease = await tenure.acquire(name);
    expect(await fence.held(lease, (tx) => tx.put("data/x", "1"))).toBeUndefined();
    await lease.renew();
    await fence.held(lease, async (tx) => {
      const entry = await tx.get("data/x");
      tx.put("data/x", `${Number(entry?.value) + 1}`);
    });
    expect(await value("data/x")).toBe("2");
    const during = fence.held(lease, async (tx) => {
      await tenure.break(name, { token: lease.token, reason: "test" });
      tx.put("data/x", "3");
    });
    await expect(during).rejects.toBeInstanceOf(LeaseLostError);
    await expect(fence.held(lease, (tx) => tx.put("data/x", "4"))).rejects.toMatchObject({
      reason: "absent",
      lock: name,
    });
    const next = await tenure.acquire(name);
    const stale = fence.held(lease, (tx) => tx.put("data/x", "5"));
    await expect(stale).rejects.toBeInstanceOf(LeaseLostError);
    await fence.held(next, (tx) => tx.put("data/x", "6"));
    expect(await value("data/x")).toBe("6");
    await next.release();
  });

  it("leaves nothing of the held check behind once the lease is released, however many there were", async () => {
    const { header } = await server.call("maintenance/status", {});
    for (let i = 0; i < 3; i++) {
      const lease = await tenure.acquire(`${name} ${i}`);
      await fence.held(lease, (tx) => tx.put("data/x", String(i)));
      await lease.renew();
      expect(await lease.release()).toBe("released");
    }
    const all = { key: base64("tenure/"), range_end: base64("tenure0") };
    const { kvs } = await server.call("kv/range", { ...all, min_create_revision: header.revision });
    const keys = kvs?.map(({ key }: { key: string }) => Buffer.from(key, "base64").toString());
    expect(keys).toEqual(undefined);
  });

  /** A fence whose next transaction is carried out twice, with `between` between the two. */
  function overtaken(between: () => Promise<unknown>): EtcdFence {
    let isNext = true;
    const gateway: EtcdGateway = {
      ask: async (path, body, options) => {
        const onward = () => client.ask(path, body, options);
        if (options.isRead === true || !options.during.startsWith("write")) return onward();
        if (isNext) {
          isNext = false;
          await onward();
          await between();
        }
        return { ...(await onward()), isLoose: true };
      },
    };
    return createEtcdFence({ gateway, close: () => undefined, runtime: platform() });
  }

  it("tells a write as unknown whose first copy was applied before another took over", async () => {
    const lease = await tenure.acquire(name);
    const { storeId, token } = lease;
    const next = bearer(token + 1n, { name, storeId });
    const late = overtaken(() => fence.arm(next, name));
    const handle = await late.arm(lease, name);
    const writing = handle.write((tx) => tx.put("data/x", "1"));
    await expect(writing).rejects.toBeInstanceOf(OutcomeUnknownError);
    expect(await value("data/x")).toBe("1");
    // What certainly did not happen is told as such, also of a request that went twice.
    await expect(handle.write((tx) => tx.put("data/x", "2"))).rejects.toThrow(StaleTokenError);
  });

  it("tells a write while held as unknown whose first copy was applied before the lease ended", async () => {
    const lease = await tenure.acquire(name);
    const late = overtaken(() => lease.release());
    const writing = late.held(lease, (tx) => tx.put("data/x", "1"));
    await expect(writing).rejects.toBeInstanceOf(OutcomeUnknownError);
    expect(await value("data/x")).toBe("1");
    await expect(late.held(lease, () => 0)).rejects.toBeInstanceOf(LeaseLostError);
  });

  it("refuses for certain a write that was asked for twice, and came after another had armed", async () => {
    const lease = await tenure.acquire(name);
    const { storeId, token } = lease;
    const gateway: EtcdGateway = {
      ask: async (path, body, options) => {
        if (options.during.startsWith("write") && options.isRead !== true) {
          await fence.arm(bearer(token + 1n, { name, storeId }), name);
        }
        return { ...(await client.ask(path, body, options)), isLoose: true };
      },
    };
    const slow = createEtcdFence({ gateway, close: () => undefined, runtime: platform() });
    const handle = await slow.arm(lease, name);
    const writing = handle.write((tx) => tx.put("data/x", "1"));
    await expect(writing).rejects.toBeInstanceOf(StaleTokenError);
    expect(await value("data/x")).toBeUndefined();
  });

  it("does nothing at a copy of a write that comes late, with and without marks", async () => {
    const late = copied();
    const lease = await tenure.acquire(name);
    await late.fence.held(lease, (tx) => tx.put("data/x", "1"));
    await fence.held(lease, (tx) => tx.put("data/x", "2"));
    await late.again();
    expect(await value("data/x")).toBe("2");
    const handle = await late.fence.arm(lease, name);
    await handle.write((tx) => tx.put("data/y", "1"));
    await handle.write((tx) => tx.put("data/y", "2"));
    const { storeId, token } = lease;
    await fence.arm(bearer(token + 1n, { name, storeId }), name);
    await late.again();
    expect(await value("data/y")).toBe("2");
    expect(await fence.mark(name)).toMatchObject({ token: token + 1n });
  });

  it("takes a write for done whose first copy was carried out, and answers what its work did", async () => {
    // As a member does that was slow: the transaction comes twice before it is answered.
    const gateway: EtcdGateway = {
      ask: async (path, body, options) => {
        if (options.isRead !== true) await client.ask(path, body, options);
        return client.ask(path, body, options);
      },
    };
    const twice = createEtcdFence({ gateway, close: () => undefined, runtime: platform() });
    const lease = await tenure.acquire(name);
    const handle = await twice.arm(lease, name);
    expect(handle.arm).toBe(1);
    const add = async (): Promise<number> =>
      handle.write(async (tx) => {
        const sum = Number((await tx.get("data/x"))?.value ?? 0) + 1;
        tx.put("data/x", String(sum));
        return sum;
      });
    expect([await add(), await add()]).toEqual([1, 2]);
    expect(await value("data/x")).toBe("2");
    expect(await twice.held(lease, () => "done")).toBe("done");
  });

  it("writes nothing when something that its work had read was changed past the fence", async () => {
    const lease = await tenure.acquire(name);
    const handle = await fence.arm(lease, name);
    await put("data/a", "1");
    const cases: [string, () => Promise<unknown>][] = [
      ["a changed key", () => put("data/a", "2")],
      ["a new key in a range", () => put("data/b", "1")],
      ["a deleted key", () => server.call("kv/deleterange", { key: base64("data/b") })],
    ];
    for (const [, change] of cases) {
      const write = handle.write(async (tx) => {
        const before = await tx.range("data/");
        await change();
        expect(await tx.range("data/")).toEqual(before);
        tx.put("sum", String(before.length));
      });
      await expect(write).rejects.toBeInstanceOf(UnavailableError);
      await expect(write).rejects.toThrow(/changed meanwhile, past the fence/);
    }
    expect(await value("sum")).toBeUndefined();
    const snapshot = await handle.read(async (tx) => {
      const first = await tx.get("data/a");
      await put("data/a", "9");
      return [first?.value, (await tx.get("data/a"))?.value];
    });
    expect(snapshot).toEqual(["2", "2"]);
  });

  it("puts, deletes, deletes ranges, under leases, text and bytes, in one step", async () => {
    const lease = await tenure.acquire(name);
    const handle = await fence.arm(lease, name);
    const { ID } = await server.call("lease/grant", { TTL: 60 });
    for (const key of ["data/a/1", "data/a/2", "data/b", "data/c"]) await put(key, "old");
    await handle.write((tx) => {
      tx.deleteRange("data/a/");
      tx.put("data/b", "first");
      tx.put("data/b", new Uint8Array([0, 255]));
      tx.delete("data/c");
      tx.put("data/d", "é", { lease: BigInt(ID) });
    });
    const all = await handle.read((tx) => tx.range("data/"));
    expect(all.map(({ key }) => key)).toEqual(["data/b", "data/d"]);
    expect([...all[0]!.bytes]).toEqual([0, 255]);
    expect(all[1]).toMatchObject({ value: "é" });
    await server.call("lease/revoke", { ID });
    expect(await value("data/d")).toBeUndefined();
    const gone = handle.write((tx) => tx.put("data/d", "x", { lease: ID }));
    await expect(gone).rejects.toThrow(/a lease of etcd that it names is gone/);
    const many = handle.write((tx) => {
      for (let i = 0; i < 200; i++) tx.put(`data/${i}`, "x");
    });
    await expect(many).rejects.toThrow(/--max-txn-ops/);
    expect(await value("data/0")).toBeUndefined();
    for (const wrong of [
      () => handle.write((tx) => tx.put("", "x")),
      () => handle.write((tx) => tx.put("x", 7 as never)),
      () => handle.read((tx) => tx.get(7 as never)),
    ]) {
      await expect(wrong()).rejects.toBeInstanceOf(TypeError);
    }
    expect(() => etcdFence(client, { prefix: "no-slash" })).toThrow(/prefix/);
    expect(() => etcdFence("http://x")).toThrow(/url/);
  });
});
