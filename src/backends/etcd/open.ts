import { checkKnown } from "../../core/options.js";
import type { EtcdAccess } from "../../drivers/etcd/address.js";
import type { EtcdClient } from "../../drivers/etcd/client.js";
import { borrowEtcd } from "../../drivers/etcd/open.js";
import { platform } from "../../platform/index.js";
import { etcdBackend, type EtcdBackend } from "./index.js";
import { checkSettings, type EtcdBackendOptions, type EtcdSettings } from "./options.js";

export type { EtcdAccess } from "../../drivers/etcd/address.js";
export type { EtcdClient } from "../../drivers/etcd/client.js";
export { etcdClient } from "../../drivers/etcd/open.js";
export type { EtcdBackend, EtcdProof } from "./index.js";
export { ForeignKeyError } from "./records.js";

const OPTIONS: readonly string[] = [
  ...["prefix", "storeId", "user", "password", "tls", "ca", "cert", "key", "runtime"],
];

/** Settings of {@link etcd}. */
export interface EtcdOptions extends EtcdSettings, EtcdAccess {
  /** Clock, timers and randomness. Default: the machine's. */
  readonly runtime?: EtcdBackendOptions["runtime"];
}

/**
 * A backend on etcd 3.4 or later, over the JSON gateway of its members: a URL
 * (`etcd://user:password@host1,host2:2379`, `etcds://` with TLS), a list of hosts, or a client made
 * by `etcdClient`, which stays the caller's to close.
 *
 * Name all members: one that is silent or cut off is passed over within a second.
 *
 * Not promised: that a lease survives its session. All leases of one TTL of a process are carried
 * by one session and end with it.
 *
 * @throws TypeError or RangeError for hosts or options that cannot be read.
 */
export function etcd(
  hosts: string | readonly string[] | EtcdClient,
  options: EtcdOptions = {},
): EtcdBackend {
  checkKnown(options, OPTIONS);
  checkSettings(options);
  const { prefix, storeId, runtime = platform(), ...access } = options;
  const { client, close } = borrowEtcd(hosts, access, runtime);
  return etcdBackend({
    ...{ gateway: client, close, runtime },
    ...(prefix === undefined ? {} : { prefix }),
    ...(storeId === undefined ? {} : { storeId }),
  });
}
