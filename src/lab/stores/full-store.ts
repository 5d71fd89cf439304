/** A store that can run full: it answers questions and takes releases, and refuses what adds. */
import { UnavailableError } from "../../core/errors.js";
import type { FencingToken } from "../../core/token.js";
import { SimulatedProcess } from "../process.js";
import type { SimulatedStore } from "../simulation.js";
import type { World } from "../world.js";
import { LeaseTable } from "./lease-table.js";
import type { StoreModel } from "./model.js";

/** A store, and whether there is room in it. */
export interface FullStore extends SimulatedStore<FencingToken> {
  /** From here on it refuses writes, or takes them again. */
  setFull(isFull: boolean): void;
}

/** A single store with a disk. */
export function fullStore(world: World): FullStore {
  const table = new LeaseTable(new SimulatedProcess(world, "store"));
  let isFull = false;
  const writing = <A extends readonly unknown[], R>(step: (...args: A) => R) => {
    return (...args: A): R => {
      if (isFull) throw new UnavailableError("no space is left on the store's disk");
      return step(...args);
    };
  };
  const model: StoreModel = {
    manifest: table.manifest,
    storeId: table.storeId,
    acquire: writing((request) => table.acquire(request)),
    renew: writing((grant) => table.renew(grant)),
    release: (request) => table.release(request),
    break: (name, token) => table.break(name, token),
    inspect: (name) => table.inspect(name),
    list: (prefix) => table.list(prefix),
  };
  return {
    find: () => ({ server: table.server, model }),
    rules: { tokensMayRepeat: false, mayHaveTwoHolders: false },
    setFull(now) {
      isFull = now;
      world.history.add({ kind: "fault", what: now ? "disk-full" : "disk-freed", target: "store" });
    },
  };
}
