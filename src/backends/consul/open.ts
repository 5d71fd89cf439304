import type { ConsulConnection } from "../../drivers/consul/address.js";
import { openConsul } from "../../drivers/consul/open.js";
import { checkKnown } from "../../core/options.js";
import { platform } from "../../platform/index.js";
import { consulBackend, type ConsulBackend } from "./index.js";
import { checkSettings, type ConsulBackendOptions, type ConsulSettings } from "./options.js";

export type { ConsulTls } from "../../drivers/consul/address.js";
export type { ConsulBackend, ConsulProof } from "./index.js";

/** Options of {@link consul}. */
export interface ConsulOptions extends ConsulSettings, ConsulConnection {
  /** Timers and randomness. Default: the machine's. */
  readonly runtime?: ConsulBackendOptions["runtime"];
}

const OPTIONS = ["prefix", "lockDelay", "minTtl", "storeId", "token", "tls", "runtime"] as const;

/**
 * A backend on Consul, through the agent at a URL: `consul://host:8500/prefix` or, with TLS,
 * `consuls://host:8501/prefix`. An ACL token may stand as the password, `consul://:TOKEN@host`.
 * Needs no client library.
 *
 * @throws TypeError or RangeError for a wrong URL or wrong options.
 */
export function consul(url: string, options: ConsulOptions = {}): ConsulBackend {
  checkKnown(options, OPTIONS);
  const { token, tls, runtime = platform(), ...settings } = options;
  const connection = {
    ...(token === undefined ? {} : { token }),
    ...(tls === undefined ? {} : { tls }),
  };
  const { client, prefix } = openConsul(url, connection, runtime.timers);
  const own = prefix === undefined ? settings : { prefix, ...settings };
  checkSettings(own);
  return consulBackend({ ...own, client, runtime });
}
