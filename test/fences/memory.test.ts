import { describe } from "vitest";
import {
  memoryStore,
  type Cell,
  type Entry,
  type ReadCell,
} from "../../src/fences/memory/index.js";
import { fenceSuite } from "./suite.js";

describe("memory fence", () => {
  fenceSuite<Cell<number>, ReadCell<number>>({
    name: "memory",
    work: "sync",
    open: async () => {
      const entries = new Map<string, Entry<number>>();
      return {
        store: memoryStore<number>(entries),
        get: (cell) => cell.get(),
        put: (cell, _resource, value) => cell.set(value),
        loseMark: async (resource) => void entries.delete(resource),
        close: async () => undefined,
      };
    },
  });
});
