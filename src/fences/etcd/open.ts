import { checkKnown } from "../../core/options.js";
import type { EtcdAccess } from "../../drivers/etcd/address.js";
import type { EtcdClient } from "../../drivers/etcd/client.js";
import { borrowEtcd } from "../../drivers/etcd/open.js";
import { platform } from "../../platform/index.js";
import type { OnStale } from "../contract.js";
import { createEtcdFence, type EtcdFence, type EtcdFenceOptions } from "./index.js";

export type { EtcdAccess } from "../../drivers/etcd/address.js";
export type { EtcdClient } from "../../drivers/etcd/client.js";
export { etcdClient } from "../../drivers/etcd/open.js";
export { armAll, type ArmedAll } from "../arm-all.js";
export type * from "../contract.js";
export type { Mark, Scope } from "../decide.js";
export type { EtcdFence, EtcdFenceOptions } from "./index.js";
export type { EtcdEntry, EtcdReadTx, EtcdTx } from "./transaction.js";

const OPTIONS: readonly string[] = [
  ...["onStale", "prefix", "leasePrefix"],
  ...["user", "password", "tls", "ca", "cert", "key"],
];

/**
 * Fence over keys of an etcd cluster: a URL (`etcd://user:password@host1,host2`, `etcds://` with
 * TLS), a list of hosts, or a client made by `etcdClient`, which stays the caller's to close.
 *
 * @throws TypeError or RangeError for hosts or options that cannot be read.
 */
export function etcdFence<S extends OnStale = "reject">(
  hosts: string | readonly string[] | EtcdClient,
  options: EtcdFenceOptions<S> & EtcdAccess = {},
): EtcdFence<S> {
  checkKnown(options, OPTIONS);
  const { client, close } = borrowEtcd(hosts, options);
  return createEtcdFence({ gateway: client, close, runtime: platform() }, options);
}
