import type { Backend } from "../../core/backend.js";
import { checkKnown } from "../../core/options.js";
import { platform } from "../../platform/index.js";
import { memoryBackend, type MemoryBackendOptions } from "./index.js";
import { MemoryStore, type MemoryStoreOptions } from "./store.js";

export type { MemoryProof } from "./index.js";
export type { MemoryStore } from "./store.js";

const OPTIONS: readonly string[] = [
  ...["runtime", "storeId", "firstToken", "store", "minTtlMs", "maxTtlMs"],
];

/**
 * A backend in the memory of this process, on the real clock.
 *
 * Each call makes a store of its own; pass `store` to let several clients contend in one.
 */
export function memory(options: Partial<MemoryBackendOptions> = {}): Backend {
  checkKnown(options, OPTIONS);
  return memoryBackend({ runtime: platform(), ...options });
}

/** A store in memory that several backends can share. */
export function memoryStore(options: Partial<MemoryStoreOptions> = {}): MemoryStore {
  return new MemoryStore({ runtime: platform(), ...options });
}
