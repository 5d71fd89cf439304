import type { Runtime } from "../../core/runtime.js";
import {
  zookeeperClient,
  ZookeeperClient,
  type ZookeeperClientOptions,
} from "../../drivers/zookeeper/client.js";
import { zookeeperFaults } from "../../drivers/zookeeper/errors.js";
import { checkRoot } from "../../drivers/zookeeper/hosts.js";
import { platform } from "../../platform/index.js";
import type { FenceOptions, OnStale } from "../contract.js";
import { createZookeeperFence, type ZookeeperFence } from "./index.js";

export {
  zookeeperClient,
  ZookeeperClient,
  type ZookeeperClientOptions,
} from "../../drivers/zookeeper/client.js";
export { armAll, type ArmedAll } from "../arm-all.js";
export type * from "../contract.js";
export type { Mark, Scope } from "../decide.js";
export type { ZookeeperFence } from "./index.js";
export type { ZookeeperReadTx, ZookeeperTx, ZookeeperValue } from "./transaction.js";

/** Options of a ZooKeeper fence: its own, and those of the connection to the servers. */
export interface ZookeeperFenceOptions<S extends OnStale = "reject">
  extends FenceOptions<S>, Omit<ZookeeperClientOptions, "runtime"> {
  /**
   * Node under which marks are kept, below the chroot; for held checks that of the leases. Default
   * `/tenure`.
   */
  readonly root?: string;
  /** Clock, timers, randomness and events. Default: the machine's. */
  readonly runtime?: Runtime;
}

/**
 * Fence over nodes of ZooKeeper 3.5.3 or later: a URL or hosts as `zookeeper()` takes them, or a
 * client, which stays the caller's to close.
 *
 * @throws TypeError for wrong options.
 */
export function zookeeperFence<S extends OnStale = "reject">(
  hosts: string | readonly string[] | ZookeeperClient,
  options: ZookeeperFenceOptions<S> = {},
): ZookeeperFence<S> {
  const { root, runtime = platform(), onStale, ...connecting } = options;
  const client =
    hosts instanceof ZookeeperClient ? hosts : zookeeperClient(hosts, { ...connecting, runtime });
  return createZookeeperFence(
    {
      client,
      faults: zookeeperFaults,
      runtime,
      root: checkRoot(root),
      keepClient: client === hosts,
    },
    onStale === undefined ? {} : { onStale },
  );
}
