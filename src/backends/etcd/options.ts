import { ArgumentTypeError } from "../../core/errors.js";
import { checkName } from "../../core/names.js";
import type { Runtime } from "../../core/runtime.js";
import type { EtcdGateway } from "./client.js";
import { DEFAULT_PREFIX } from "./records.js";

/** What the caller may choose. */
export interface EtcdSettings {
  /** Beginning of all keys, with a slash at its end. Default `tenure/`. */
  readonly prefix?: string;
  /** Id of the store, where two stores are to count as one. Default: the one kept in the store. */
  readonly storeId?: string;
}

/** Settings of `etcdBackend`. */
export interface EtcdBackendOptions extends EtcdSettings {
  readonly gateway: EtcdGateway;
  /** Closes the gateway, unless it is the caller's. */
  readonly close: () => void;
  readonly runtime: Pick<Runtime, "clock" | "timers" | "random">;
}

/** @throws TypeError or RangeError naming the option and its value. */
export function checkSettings({ prefix = DEFAULT_PREFIX, storeId }: EtcdSettings): string {
  if (storeId !== undefined) checkName(storeId, "storeId");
  if (checkName(prefix, "prefix").endsWith("/")) return prefix;
  throw new ArgumentTypeError("prefix", prefix, 'text that ends with "/"');
}
