/**
 * Fence over values in this process, for tests, simulations and single-process programs. Decision
 * and effect are one step because JavaScript runs a function to its end.
 */
import type {
  Fence,
  FenceOptions,
  FenceRuntime,
  FenceStore,
  OnStale,
  Ran,
  Work,
} from "../contract.js";
import { decide, rebase, type FenceRequest, type MarkRecord, type Verdict } from "../decide.js";
import { createFence } from "../fence.js";

/** The value of a resource, as a read sees it. Kept by reference: do not change it in place. */
export interface ReadCell<V> {
  get(): V | undefined;
}

/** The value of a resource, as a write sees it; the last `set` or `delete` counts. */
export interface Cell<V> extends ReadCell<V> {
  set(value: V): void;
  delete(): void;
}

/** What the store keeps of one resource. */
export interface Entry<V> {
  /** Null once it was lost, which nothing here does by itself. */
  readonly record: MarkRecord | null;
  readonly value: V | undefined;
}

/** Fence over values of this process. Two such fences are two stores. */
export function createMemoryFence<V, S extends OnStale = "reject">(
  runtime: FenceRuntime,
  options: FenceOptions<S> = {},
): Fence<Cell<V>, ReadCell<V>, S> {
  return createFence(memoryStore<V>(), runtime, options);
}

/** The store alone, and what it keeps, for those who put something between handle and store. */
export function memoryStore<V>(
  entries: Map<string, Entry<V>> = new Map(),
): FenceStore<Cell<V>, ReadCell<V>> {
  function put(resource: string, record: MarkRecord, value: V | undefined): void {
    entries.set(resource, { record, value });
  }

  function judge(request: FenceRequest): Verdict {
    return decide(entries.get(request.resource)?.record ?? null, request);
  }

  /** Runs the work on a copy of the cell, and keeps it only if the work returns. */
  function run<R>(request: FenceRequest, work: Work<Cell<V>, R>): Ran<R> {
    const verdict = judge(request);
    if (!verdict.accepted) return verdict;
    let value = entries.get(request.resource)?.value;
    let open = true;
    const change = (next: V | undefined): void => {
      if (!open) throw new TypeError("this write has ended");
      value = next;
    };
    try {
      const result = work({
        get: () => value,
        set: change,
        delete: () => change(undefined),
      });
      put(request.resource, verdict.record, value);
      return { accepted: true, result: result as R };
    } finally {
      open = false;
    }
  }

  return {
    kind: "memory",
    work: "sync",
    load: async (resource) => entries.get(resource)?.record ?? null,
    arm: async (request) => {
      const verdict = judge(request);
      const { resource } = request;
      if (verdict.accepted) put(resource, verdict.record, entries.get(resource)?.value);
      return verdict;
    },
    read: async (request, work) => run(request, (cell) => work({ get: () => cell.get() })),
    write: async (request, work) => run(request, work),
    rebase: async (request) => {
      const entry = entries.get(request.resource);
      const before = entry?.record ?? null;
      const after = rebase(before, request);
      put(request.resource, after, entry?.value);
      return { before, after };
    },
  };
}
