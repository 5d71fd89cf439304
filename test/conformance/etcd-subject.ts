import { setTimeout as sleep } from "node:timers/promises";
import type { EtcdProof } from "../../src/backends/etcd/index.js";
import { etcd } from "../../src/backends/etcd/open.js";
import { Keys } from "../../src/backends/etcd/records.js";
import { Tenure } from "../../src/core/tenure.js";
import { platform } from "../../src/platform/index.js";
import { realTime, type Subject } from "../../src/testing/subject.js";
import type { EtcdServer } from "../servers/etcd.js";

/** Sockets and timers that keep the process alive; not the tail of a request that was answered. */
const handles = (): number =>
  process.getActiveResourcesInfo().filter((kind) => /Wrap|Timeout|Immediate/.test(kind)).length;

let stores = 0;

/**
 * The etcd backend on running servers, each case with a prefix of its own. Alone: the cases run one
 * after the other, and may restart the server and count handles.
 */
export function etcdSubject(
  hosts: readonly string[],
  member: EtcdServer,
  isAlone: boolean,
): Subject {
  return {
    time: realTime(sleep),
    connect: (backend) => Tenure.open(backend, platform(), { purpose: "efficiency" }),
    shortTtlMs: 1_000,
    // The leader looks for what has expired every half second.
    expirySlackMs: 1_000,
    async open() {
      const prefix = `case-${++stores}/`;
      const keys = new Keys(prefix);
      const handlesBefore = handles();
      const alone = {
        restart: () => member.restart(),
        openHandles: () => handles() - handlesBefore,
      };
      return {
        connect: async () => etcd(hosts, { prefix }),
        deleteRecord: (name) => member.call("kv/deleterange", keys.name(name)),
        // What is swept is the history: records that have ended are gone at once.
        sweep: async () => {
          const { header } = await member.call("kv/range", { key: keys.store });
          await member.call("kv/compaction", { revision: header.revision, physical: true });
        },
        async testProof(proof) {
          const { compare } = proof as EtcdProof;
          // Without an operation the member would answer from what it has heard so far.
          const success = [{ request_range: { key: keys.store } }];
          return (await member.call("kv/txn", { compare, success })).succeeded === true;
        },
        ...(isAlone ? alone : {}),
        dispose: () => member.call("kv/deleterange", keys.all),
      };
    },
  };
}
