import { platform } from "../../platform/index.js";
import type { EtcdAccess } from "./address.js";
import { EtcdClient, knownEtcd, type EtcdRuntime } from "./client.js";

/**
 * A client of an etcd cluster, for several backends and fences of one process: a URL
 * (`etcd://user:password@host1,host2:2379`, `etcds://` with TLS), or a list of hosts.
 *
 * It opens connections when they are needed. To be closed by whoever made it.
 *
 * @throws TypeError or RangeError for hosts or options that cannot be read.
 */
export function etcdClient(
  hostsOrUrl: string | readonly string[],
  access: EtcdAccess = {},
  runtime: EtcdRuntime = platform(),
): EtcdClient {
  return new EtcdClient(hostsOrUrl, access, runtime);
}

/** A client as given, or one of our own, which its user has to close. */
export function borrowEtcd(
  given: string | readonly string[] | EtcdClient,
  access: EtcdAccess,
  runtime: EtcdRuntime = platform(),
): { readonly client: EtcdClient; readonly close: () => void } {
  if (typeof given === "string" || Array.isArray(given)) {
    const client = etcdClient(given as string | readonly string[], access, runtime);
    return { client, close: () => client.close() };
  }
  return { client: knownEtcd(given), close: () => undefined };
}
