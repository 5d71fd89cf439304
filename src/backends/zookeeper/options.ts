import { checkName } from "../../core/names.js";
import { checkKnown } from "../../core/options.js";
import type { Runtime } from "../../core/runtime.js";
import type { Faults, ZkClient } from "./client.js";

/** What the caller may choose. */
export interface ZookeeperSettings {
  /** Node under which everything is kept, below the chroot. Default `/tenure`. */
  readonly root?: string;
  /** Id of the store, where two stores are to count as one. Default: the one kept in the store. */
  readonly storeId?: string;
}

/** Settings of `zookeeperBackend`. */
export interface ZookeeperBackendOptions extends ZookeeperSettings {
  readonly root: string;
  readonly client: ZkClient;
  /** The client is the caller's to close. Default false. */
  readonly keepClient?: boolean;
  readonly faults: Faults;
  readonly runtime: Pick<Runtime, "timers" | "random">;
}

/** @throws TypeError or RangeError naming the option and its value. */
export function checkSettings(settings: ZookeeperSettings): void {
  checkKnown(settings, ["root", "storeId", "client", "keepClient", "faults", "runtime"]);
  if (settings.storeId !== undefined) checkName(settings.storeId, "storeId");
}
