import { afterAll, beforeAll } from "vitest";
import { etcdClient } from "../../src/drivers/etcd/open.js";
import type { EtcdClient } from "../../src/drivers/etcd/client.js";
import { etcdStore } from "../../src/fences/etcd/index.js";
import type { EtcdReadTx, EtcdTx } from "../../src/fences/etcd/transaction.js";
import { platform } from "../../src/platform/index.js";
import { etcdProgram, startEtcd, type EtcdServer } from "../servers/etcd.js";
import { describeOn } from "../servers/find.js";
import { fenceSuite } from "./suite.js";

describeOn(etcdProgram, "etcd fence", () => {
  let server: EtcdServer;
  let client: EtcdClient;
  let count = 0;
  beforeAll(async () => {
    server = await startEtcd();
    client = etcdClient(server.url);
  });
  afterAll(async () => {
    client.close();
    await server.dispose();
  });

  fenceSuite<EtcdTx, EtcdReadTx>({
    name: "etcd",
    work: "async",
    open: async () => {
      const prefix = `fence${count++}/`;
      const key = (resource: string): string => `${prefix}value/${resource}`;
      const get = (tx: EtcdReadTx, resource: string): Promise<number | undefined> =>
        tx.get(key(resource)).then((entry) => (entry === undefined ? undefined : +entry.value));
      return {
        store: etcdStore(
          { gateway: client, newId: () => platform().random.id() },
          `${prefix}mark/`,
        ),
        get,
        put: (tx, resource, value) => tx.put(key(resource), String(value)),
        add: async (tx, resource, amount) => {
          const sum = ((await get(tx, resource)) ?? 0) + amount;
          tx.put(key(resource), String(sum));
          return sum;
        },
        loseMark: async (resource) => {
          const mark = Buffer.from(`${prefix}mark/${resource}`).toString("base64");
          await server.call("kv/deleterange", { key: mark });
        },
        close: async () => undefined,
      };
    },
  });
});
