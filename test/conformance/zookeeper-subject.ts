import { setTimeout as sleep } from "node:timers/promises";
import { encodeName } from "../../src/backends/zookeeper/names.js";
import { zookeeper } from "../../src/backends/zookeeper/open.js";
import type { ZookeeperProof } from "../../src/backends/zookeeper/index.js";
import { Tenure } from "../../src/core/tenure.js";
import { zookeeperClient } from "../../src/drivers/zookeeper/client.js";
import { platform } from "../../src/platform/index.js";
import { realTime, type Subject } from "../../src/testing/subject.js";
import { MIN_SESSION_MS } from "../servers/zookeeper.js";

/** Sockets and timers that keep the process alive; not the tail of a request that was answered. */
const handles = (): number =>
  process.getActiveResourcesInfo().filter((kind) => /Wrap|Timeout|Immediate/.test(kind)).length;

const call = { timeoutMs: 10_000, signal: new AbortController().signal };

/** Of the servers of these tests: sessions end on one of the leader's. */
export const TICK_MS = 200;

/** The zookeeper backend at a URL; `slackMs` is how long after its TTL a lease may be shown. */
export function zookeeperSubject(
  url: string,
  slackMs: number,
  restart?: () => Promise<void>,
): Subject {
  const client = zookeeperClient(url);
  /** The folder of a name with all that is in it, by hand. */
  const emptyFolder = async (name: string, andFolder: boolean): Promise<void> => {
    const session = await client.open(10_000, call);
    const folder = `/tenure/leases/${encodeName(name)}`;
    const children = await session.children(folder, call, true);
    for (const child of children ?? []) {
      await session.commit([{ kind: "delete", path: `${folder}/${child}`, version: -1 }], call);
    }
    if (andFolder) await session.commit([{ kind: "delete", path: folder, version: -1 }], call);
    await session.close();
  };
  return {
    time: realTime(sleep),
    connect: (backend) => Tenure.open(backend, platform(), { purpose: "efficiency" }),
    runId: String(process.pid),
    // A third of it without an answer counts as silence, which a busy machine may keep.
    shortTtlMs: 3 * MIN_SESSION_MS,
    expirySlackMs: slackMs,
    async open() {
      const handlesBefore = handles();
      return {
        connect: async () => zookeeper(url),
        ...(restart === undefined ? {} : { restart }),
        deleteRecord: (name) => emptyFolder(name, true),
        // What the server itself does with the folder of a name that nobody wants.
        sweep: async () => undefined,
        testProof: async (proof) => {
          const { path } = proof as ZookeeperProof;
          const session = await client.open(10_000, call);
          const answer = await session.commit([{ kind: "check", path, version: -1 }], call);
          await session.close();
          return answer.ok;
        },
        openHandles: () => handles() - handlesBefore,
      };
    },
  };
}
