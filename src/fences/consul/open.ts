import { checkKnown } from "../../core/options.js";
import type { ConsulConnection } from "../../drivers/consul/address.js";
import { openConsul } from "../../drivers/consul/open.js";
import { platform } from "../../platform/index.js";
import type { OnStale } from "../contract.js";
import { createConsulFence, type ConsulFence, type ConsulFenceOptions } from "./index.js";

export type { FencingToken, TokenBearer } from "../../core/token.js";
export type { ConsulTls } from "../../drivers/consul/address.js";
export { armAll, type ArmedAll } from "../arm-all.js";
export type * from "../contract.js";
export type { Mark, Scope } from "../decide.js";
export type { ConsulFence, ConsulFenceOptions } from "./index.js";
export type { ConsulReader, ConsulTx } from "./transaction.js";

const OPTIONS = ["prefix", "leasePrefix", "onStale", "token", "tls"] as const;

/**
 * Fence over keys of Consul, through the agent at a URL: `consul://host:8500/prefix` or, with TLS,
 * `consuls://host:8501/prefix`. An ACL token may stand as the password, `consul://:TOKEN@host`.
 *
 * Needs no client library and nothing to close: its idle connections keep no process alive.
 *
 * @throws TypeError or RangeError for a wrong URL or wrong options.
 */
export function consulFence<S extends OnStale = "reject">(
  url: string,
  options: ConsulFenceOptions<S> & ConsulConnection = {},
): ConsulFence<S> {
  checkKnown(options, OPTIONS);
  const { token, tls, ...settings } = options;
  const { client, prefix } = openConsul(url, {
    ...(token === undefined ? {} : { token }),
    ...(tls === undefined ? {} : { tls }),
  });
  const own = prefix === undefined ? settings : { prefix, ...settings };
  return createConsulFence({ client, runtime: platform() }, own);
}
