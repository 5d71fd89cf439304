import type { Runtime } from "../../core/runtime.js";
import {
  zookeeperClient,
  ZookeeperClient,
  type ZookeeperClientOptions,
} from "../../drivers/zookeeper/client.js";
import { zookeeperFaults } from "../../drivers/zookeeper/errors.js";
import { checkRoot } from "../../drivers/zookeeper/hosts.js";
import { platform } from "../../platform/index.js";
import { zookeeperBackend, type ZookeeperBackend } from "./index.js";
import type { ZookeeperSettings } from "./options.js";

export {
  zookeeperClient,
  ZookeeperClient,
  type ZookeeperClientOptions,
} from "../../drivers/zookeeper/client.js";
export type { ZookeeperBackend, ZookeeperProof } from "./index.js";
export type { ZookeeperSettings } from "./options.js";

/** Settings of {@link zookeeper}: of the store, and of the connections to it. */
export interface ZookeeperOptions
  extends ZookeeperSettings, Omit<ZookeeperClientOptions, "runtime"> {
  /** Clock, timers and randomness. Default: the machine's. */
  readonly runtime?: Runtime;
}

/**
 * A backend on ZooKeeper 3.5.3 or later: a URL (`zookeeper://h1,h2:2181,h3/chroot`, with
 * `user:password@` before the hosts where nodes are to be that user's alone), ZooKeeper's own
 * `h1:2181,h2:2181/chroot`, a list of `host:port`, or a client that a fence uses, too.
 *
 * It speaks ZooKeeper's protocol itself and needs no library. Each distinct TTL of a process has a
 * session, and so a connection, of its own.
 *
 * @throws TypeError or RangeError for wrong options.
 */
export function zookeeper(
  hosts: string | readonly string[] | ZookeeperClient,
  options: ZookeeperOptions = {},
): ZookeeperBackend {
  const { root, storeId, runtime = platform(), ...connecting } = options;
  const client =
    hosts instanceof ZookeeperClient ? hosts : zookeeperClient(hosts, { ...connecting, runtime });
  return zookeeperBackend({
    root: checkRoot(root),
    ...(storeId === undefined ? {} : { storeId }),
    client,
    keepClient: client === hosts,
    faults: zookeeperFaults,
    runtime,
  });
}
