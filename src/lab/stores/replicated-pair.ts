/**
 * A primary and a replica that hears of every change some time later, as Redis does and an
 * asynchronous standby of an SQL server. A failover loses what had not arrived.
 */
import type { Held } from "../../core/backend.js";
import { UnavailableError } from "../../core/errors.js";
import type { FencingToken } from "../../core/token.js";
import type { Network } from "../network.js";
import { SimulatedProcess } from "../process.js";
import type { SimulatedStore } from "../simulation.js";
import type { World } from "../world.js";
import { LeaseTable, type TableOptions } from "./lease-table.js";
import type { StoreModel } from "./model.js";

/** A pair of servers, and what can be done to it. */
export interface ReplicatedPair extends SimulatedStore {
  readonly primary: LeaseTable;
  readonly replica: LeaseTable;
  /** The primary dies, and the replica is the store from now on, with what it has heard. */
  failOver(): void;
  /** The replica for those who only look, as it is now: late, and when messages overtake, older. */
  readonly view: SimulatedStore<FencingToken>;
  /** How far the replica's clock is behind: then it may give out a token again. */
  setReplicaBack(ms: number): void;
}

/** A pair whose replica follows over the network. */
export function replicatedPair(
  world: World,
  network: Network,
  options: TableOptions = {},
): ReplicatedPair {
  const storeId = options.storeId ?? "pair";
  const make = (name: string): LeaseTable => {
    const settings = { ...options, storeId, tokens: "until-failover" } as const;
    return new LeaseTable(new SimulatedProcess(world, name), settings);
  };
  const [primary, replica] = [make("store"), make("replica")];
  let serving = primary;
  primary.onChange = (name) => {
    const copy = primary.copyOf(name);
    network.send(primary.server, replica.server, "replicate", () => {
      // A promoted server listens to nobody.
      if (serving === primary) replica.take(name, copy);
    });
  };
  return {
    primary,
    replica,
    find: () => ({
      server: serving.server,
      model: serving,
      epoch: serving === primary ? "first" : "second",
    }),
    rules: { tokensMayRepeat: true, mayHaveTwoHolders: true },
    view: viewOf(replica),
    failOver() {
      world.history.add({ kind: "fault", what: "failover", target: "store" });
      primary.server.kill();
      serving = replica;
    },
    setReplicaBack: (ms) => replica.server.jumpWall(-ms),
  };
}

/** Shows what it has heard, decides nothing about it, and refuses all else. */
function viewOf(replica: LeaseTable): SimulatedStore<FencingToken> {
  const refuse = (): never => {
    throw new UnavailableError("a replica only answers questions");
  };
  const model: StoreModel = {
    manifest: { ...replica.manifest, waiting: "poll", fair: false },
    storeId: replica.storeId,
    acquire: refuse,
    renew: refuse,
    release: refuse,
    break: refuse,
    list: refuse,
    inspect(name): Held | null {
      const { record } = replica.copyOf(name);
      if (record === undefined) return null;
      const { holder, token, ttlMs } = record;
      return { holder, token, ttlMs, why: "held" };
    },
  };
  return {
    find: () => ({ server: replica.server, model }),
    rules: { tokensMayRepeat: true, mayHaveTwoHolders: true },
  };
}
