/** The models of stores on which random runs are made, by name. */
import { singleStore, type MakeStore } from "./simulation.js";
import { observedStore } from "./stores/observed-store.js";
import { replicatedPair } from "./stores/replicated-pair.js";
import { sessionStore } from "./stores/session-store.js";

/** Name of a model. */
export type StoreName = "poll" | "notify" | "queue" | "pair" | "sessions" | "observed";

/**
 * The models: one server that is polled, that tells of releases, or that keeps a queue; a primary
 * with a replica; sessions on three members; and a store that compares no clocks.
 */
export const STORE_MODELS: Readonly<Record<StoreName, MakeStore>> = {
  poll: singleStore({ waiting: "poll" }),
  notify: singleStore({ waiting: "notify" }),
  queue: singleStore({ waiting: "queue" }),
  pair: (world, network) => replicatedPair(world, network),
  sessions: (world) => sessionStore(world),
  observed: observedStore,
};

const NAMES = Object.keys(STORE_MODELS) as StoreName[];

/** The model that a seed is run on: each in its turn. */
export function storeOf(seed: number): StoreName {
  return NAMES[seed % NAMES.length]!;
}
