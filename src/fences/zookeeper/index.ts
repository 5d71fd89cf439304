/**
 * Fence over nodes of ZooKeeper: the check of the mark and the changes of a write are one
 * transaction of the ensemble.
 *
 * Not promised: that a write is not carried out whose answer was lost; the handle arms again then.
 * Code that changes the same nodes without a handle is not stopped: give them to credentials of
 * their own. A transaction is one message, of less than a megabyte with the servers' defaults.
 */
import { LeaseLostError } from "../../core/errors.js";
import { checkObject } from "../../core/options.js";
import type { TokenBearer } from "../../core/token.js";
import { checkBearer, throwIfAborted } from "../bearer.js";
import type { Fence, FenceOptions, FenceRuntime, OnStale } from "../contract.js";
import { createFence } from "../fence.js";
import { checkWork } from "../handle.js";
import type { Bounds, FenceClient, FenceSession, Faults } from "./client.js";
import {
  bounded,
  encodeSegment,
  refusedChange,
  runWork,
  zookeeperStore,
  type ZookeeperStoreParts,
} from "./store.js";
import { Notebook, type ZookeeperReadTx, type ZookeeperTx } from "./transaction.js";

/** A fence over nodes of one ensemble. Reads are answered at once, changes are noted. */
export interface ZookeeperFence<S extends OnStale = "reject"> extends Fence<
  ZookeeperTx,
  ZookeeperReadTx,
  S
> {
  /**
   * Held check: for a lease kept in the same ensemble, one transaction says that the lease's node
   * is still there, and writes. It needs no arming and no mark.
   *
   * Not promised: that nodes written under a mark are safe from it: use one or the other for a
   * node, not both. A session that has ended counts as held until the ensemble has noticed.
   *
   * @throws LeaseLostError when the node is not there; nothing was changed.
   */
  held<R>(bearer: TokenBearer, work: (tx: ZookeeperTx) => R): Promise<Awaited<R>>;
  /** Closes the session, if the fence has opened the client. */
  close(): Promise<void>;
}

/** What a fence is made of. */
export interface ZookeeperFenceParts {
  readonly client: FenceClient;
  readonly faults: Faults;
  readonly runtime: FenceRuntime;
  /** Node of all that is Tenure's, below the chroot. */
  readonly root: string;
  /** The client is the caller's to close. */
  readonly keepClient: boolean;
}

/** @throws TypeError for wrong options. */
export function createZookeeperFence<S extends OnStale = "reject">(
  parts: ZookeeperFenceParts,
  options: FenceOptions<S> = {},
): ZookeeperFence<S> {
  checkObject(options, "options");
  const { client, faults, runtime, keepClient } = parts;
  const base = client.chroot + parts.root;
  const store: ZookeeperStoreParts = { client, faults, timers: runtime.timers, base };
  const fence = createFence<ZookeeperTx, ZookeeperReadTx, S>(
    zookeeperStore(store),
    runtime,
    options,
  );
  return {
    arm: (bearer, resource) => fence.arm(bearer, resource),
    armAll: (bearer, resources) => fence.armAll(bearer, resources),
    resource: (name) => fence.resource(name),
    mark: (resource) => fence.mark(resource),
    rebase: (resource, to) => fence.rebase(resource, to),
    held: async (bearer, work) => {
      const armer = checkBearer(bearer);
      checkWork(work);
      const { name } = armer.scope;
      const lost = (): LeaseLostError =>
        new LeaseLostError(`the store no longer has token ${armer.token} of this holder`, {
          reason: "absent",
          lock: name,
          backend: "zookeeper",
        });
      return bounded(store, "write while held", armer, async (bounds) => {
        const found = await client.use(bounds, async (session) => ({
          session,
          path: await findLease(session, `${base}/leases/${encodeSegment(name)}`, armer, bounds),
        }));
        if (found.path === undefined) throw lost();
        const notebook = new Notebook(found.session, client.chroot, bounds);
        const result = await runWork(work, notebook.tx).finally(() => notebook.end());
        throwIfAborted(armer);
        const { changes } = notebook;
        // The name of a lease's node is not used twice.
        const check = { kind: "check", path: found.path, version: -1 } as const;
        const committed = await found.session.commit([check, ...changes], bounds);
        if (committed.ok) return result as never;
        if (committed.place === 0) throw lost();
        throw refusedChange("write while held", changes, committed);
      });
    },
    close: async () => {
      if (!keepClient) await client.close();
    },
  };
}

/** The node of a lease: the backend names it after the holder, and its token is its own making. */
async function findLease(
  session: FenceSession,
  folder: string,
  { holder, token }: { readonly holder: string; readonly token: bigint },
  bounds: Bounds,
): Promise<string | undefined> {
  const prefix = `${encodeSegment(holder).replaceAll("~", "%7E")}~`;
  const children = (await session.children(folder, bounds, true)) ?? [];
  for (const child of children.filter((name) => name.startsWith(prefix))) {
    const path = `${folder}/${child}`;
    if ((await session.node(path, bounds))?.stat.czxid === token) return path;
  }
  return undefined;
}
