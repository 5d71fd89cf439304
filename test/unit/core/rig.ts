import type { Backend } from "../../../src/core/backend.js";
import { memoryBackend } from "../../../src/backends/memory/index.js";
import { MemoryStore } from "../../../src/backends/memory/store.js";
import { Tenure } from "../../../src/core/tenure.js";
import { UnavailableError } from "../../../src/core/errors.js";
import type { TenureOptions } from "../../../src/core/tenure-options.js";
import type { FencingToken } from "../../../src/core/token.js";
import { simulatedRuntime } from "../../../src/testing/simulated-runtime.js";
import type { Simulation } from "../../../src/testing/simulated-runtime.js";

type Method = "acquire" | "renew" | "release" | "inspect";

/** What stands between the core and the store: called instead of a method, may call `next`. */
export type Hooks = {
  -readonly [M in Method]?: (
    next: () => ReturnType<Backend[M]>,
    ...args: Parameters<Backend[M]>
  ) => ReturnType<Backend[M]>;
};

/** A backend whose methods can be replaced while a test runs, and which counts its calls. */
export interface HookedBackend {
  readonly backend: Backend;
  readonly hooks: Hooks;
  readonly calls: { readonly method: string; readonly count: number; readonly names: string[] }[];
}

export function hooked(inner: Backend): HookedBackend {
  const hooks: Hooks = {};
  const calls: HookedBackend["calls"] = [];
  const note = (method: string, names: string[]): void => {
    calls.push({ method, count: names.length, names });
  };
  const backend: Backend = {
    ...inner,
    acquire: (request, call) => {
      note("acquire", [request.name]);
      const next = (): ReturnType<Backend["acquire"]> => inner.acquire(request, call);
      return hooks.acquire === undefined ? next() : hooks.acquire(next, request, call);
    },
    renew: (grants, call) => {
      note(
        "renew",
        grants.map(({ name }) => name),
      );
      const next = (): ReturnType<Backend["renew"]> => inner.renew(grants, call);
      return hooks.renew === undefined ? next() : hooks.renew(next, grants, call);
    },
    release: (requests, call) => {
      note(
        "release",
        requests.map(({ name }) => name),
      );
      const next = (): ReturnType<Backend["release"]> => inner.release(requests, call);
      return hooks.release === undefined ? next() : hooks.release(next, requests, call);
    },
    inspect: (name, call) => {
      note("inspect", [name]);
      const next = (): ReturnType<Backend["inspect"]> => inner.inspect(name, call);
      return hooks.inspect === undefined ? next() : hooks.inspect(next, name, call);
    },
  };
  return { backend, hooks, calls };
}

/** Two clients of one store in memory, on one simulated machine. */
export interface Rig {
  readonly sim: Simulation;
  readonly store: MemoryStore;
  readonly a: Tenure;
  readonly b: Tenure;
  readonly hooks: Hooks;
  readonly calls: HookedBackend["calls"];
}

/** `a` is hooked, `b` talks to the store undisturbed. */
export async function rig(options: TenureOptions = {}): Promise<Rig> {
  const sim = simulatedRuntime({ seed: 1 });
  const store = new MemoryStore({ runtime: sim.runtime });
  const { backend, hooks, calls } = hooked(memoryBackend({ runtime: sim.runtime, store }));
  const a = await Tenure.open<FencingToken>(backend, sim.runtime, options);
  const b = await Tenure.open<FencingToken>(
    memoryBackend({ runtime: sim.runtime, store }),
    sim.runtime,
    options,
  );
  return { sim, store, a, b, hooks, calls };
}

/** A promise that the test settles. */
export function gate<V = void>(): {
  readonly promise: Promise<V>;
  readonly open: (value: V) => void;
  readonly fail: (error: unknown) => void;
} {
  let open!: (value: V) => void;
  let fail!: (error: unknown) => void;
  const promise = new Promise<V>((resolve, reject) => {
    open = resolve;
    fail = reject;
  });
  return { promise, open, fail };
}

/** The value, which must not be null. */
export function present<V>(value: V | null | undefined): V {
  if (value === null || value === undefined) throw new Error("nothing there");
  return value;
}

/** A store that certainly did nothing. */
export const down = (): never => {
  throw new UnavailableError("the store is down");
};

/** A store that never answers. */
export const silent = (): Promise<never> => new Promise<never>(() => undefined);
