import type { Timers } from "../../core/clock.js";
import { platform } from "../../platform/index.js";
import { parseAddress, type ConsulConnection } from "./address.js";
import { ConsulClient } from "./client.js";
import { ConsulHttp } from "./http.js";

/**
 * A client of the agent at a URL, and the path of that URL. Nothing is sent before its first call.
 *
 * @throws TypeError for a wrong URL, token or TLS setting.
 */
export function openConsul(
  url: string,
  connection: ConsulConnection,
  timers: Timers = platform().timers,
): { readonly client: ConsulClient; readonly prefix: string | undefined } {
  const address = parseAddress(url, connection);
  return { client: new ConsulClient(new ConsulHttp(address, timers)), prefix: address.prefix };
}
