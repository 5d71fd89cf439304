import { setTimeout as sleep } from "node:timers/promises";
import type { ConsulProof } from "../../src/backends/consul/open.js";
import { consul } from "../../src/backends/consul/open.js";
import { Tenure } from "../../src/core/tenure.js";
import { platform } from "../../src/platform/index.js";
import { realTime, type Subject } from "../../src/testing/subject.js";
import type { ConsulServer } from "../servers/consul.js";

/** Sockets and timers that keep the process alive. */
const handles = (): number =>
  process.getActiveResourcesInfo().filter((kind) => /Wrap|Timeout|Immediate/.test(kind)).length;

let prefixes = 0;

/**
 * The consul backend through one server of a real Consul, each case with keys of its own. Alone:
 * the cases may restart the server and count handles.
 */
export function consulSubject(server: ConsulServer, isAlone: boolean): Subject {
  return {
    time: realTime(sleep),
    connect: (backend) => Tenure.open(backend, platform(), { purpose: "efficiency" }),
    // The shortest TTL that this server takes. It ends a session after twice its TTL; the longest
    // that a case lets expire is 1,500 ms.
    shortTtlMs: 200,
    expirySlackMs: 1_900,
    async open() {
      const prefix = `case${++prefixes}`;
      const handlesBefore = handles();
      const leases = `${prefix}/lease/`;
      const alone = {
        restart: () => server.restart(),
        openHandles: () => handles() - handlesBefore,
      };
      return {
        connect: async () => consul(server.url, { prefix, lockDelay: 0, minTtl: "200ms" }),
        deleteRecord: async () => {
          await server.call("DELETE", `kv/${leases}?recurse`);
        },
        sweep: async () => {
          const all: { Key: string; Session?: string }[] | undefined = await server.call(
            "GET",
            `kv/${leases}?recurse`,
          );
          for (const { Key, Session } of all ?? []) {
            if (Session === undefined) await server.call("DELETE", `kv/${encodeURI(Key)}`);
          }
        },
        async testProof(proof) {
          const { key, session, index } = proof as ConsulProof;
          const checks = [
            { KV: { Verb: "check-session", Key: key, Session: session } },
            { KV: { Verb: "check-index", Key: key, Index: Number(index) } },
          ];
          return await server.call("PUT", "txn?consistent", checks).then(
            () => true,
            (error: Error) => {
              if (/409/.test(error.message)) return false;
              throw error;
            },
          );
        },
        ...(isAlone ? alone : {}),
        dispose: async () => void (await server.call("DELETE", `kv/${prefix}/?recurse`)),
      };
    },
  };
}
