import type { AcquireOptions } from "../../../src/core/options.js";
import type { Lease } from "../../../src/core/lease.js";
import type { FencingToken } from "../../../src/core/token.js";
import type { AnyTenure } from "../../../src/testing/subject.js";
import { change, type Mutant } from "./mutant.js";

type AnyLease = Lease<FencingToken | undefined>;

/** The tenure with some methods replaced. */
function front(
  tenure: AnyTenure,
  changes: (tenure: AnyTenure) => Readonly<Record<string, unknown>>,
): AnyTenure {
  return over(tenure, changes(tenure));
}

function over<O extends object>(object: O, changes: Readonly<Record<string, unknown>>): O {
  return new Proxy(object, {
    get(target, key) {
      if (typeof key === "string" && key in changes) return changes[key];
      const value: unknown = Reflect.get(target, key, target);
      return typeof value === "function" ? value.bind(target) : value;
    },
  });
}

/** A core, or a backend below it, that does not do its part. */
export const tenureMutants: readonly Mutant[] = [
  {
    title: "leaves the place of a waiter whose time is over",
    caught: "tenure-wait-limit",
    wrap: (backend) => {
      const { waiting } = backend;
      if (waiting.kind !== "queue") throw new Error("not a queue");
      return change(backend, {
        waiting: {
          ...waiting,
          enqueue: async (request, call) => ({
            ...(await waiting.enqueue(request, call)),
            leave: async () => {},
          }),
        },
        release: async (requests, call) =>
          backend.release(
            requests.filter(({ token }) => token !== undefined),
            call,
          ),
      });
    },
  },
  {
    title: "rejects with a reason of its own",
    caught: "tenure-abort",
    tenure: (tenure) =>
      front(tenure, ({ acquire }) => ({
        acquire: (name: string, options: AcquireOptions) =>
          acquire.call(tenure, name, options).catch(() => Promise.reject(new Error("aborted"))),
      })),
  },
  {
    title: "keeps the record of an attempt that was given up, for an hour",
    caught: "tenure-lost-grant",
    wrap: (backend, { random }) =>
      change(backend, {
        acquire: (request, call) =>
          backend.acquire({ ...request, holder: random.id(), ttlMs: 3_600_000 }, call),
      }),
  },
  {
    title: "does not repeat an offer",
    caught: "tenure-lost-notice",
    wrap: (backend) => {
      const { waiting } = backend;
      if (waiting.kind !== "queue") throw new Error("not a queue");
      const touch = async (...given: Parameters<typeof waiting.touch>) =>
        (await waiting.touch(...given)).map((seen) => (seen === "gone" ? seen : "waiting"));
      return change(backend, { waiting: { ...waiting, touch } });
    },
  },
  {
    title: "lets every waiter ask again and again",
    caught: "tenure-one-woken",
    tenure: (tenure, _backend, { timers }) =>
      front(tenure, ({ tryAcquire }) => ({
        acquire: async (name: string) => {
          for (;;) {
            const lease = await tryAcquire.call(tenure, name);
            if (lease !== null) return lease;
            await new Promise<void>((resolve) => timers.after(20, resolve));
          }
        },
      })),
  },
  {
    title: "lets the loser of two calls release the winner's lease",
    caught: "tenure-two-at-once",
    tenure: (tenure) => {
      let winner: AnyLease | undefined;
      return front(tenure, ({ acquire }) => ({
        acquire: async (name: string, options: AcquireOptions) => {
          try {
            return (winner = await acquire.call(tenure, name, options));
          } catch (error) {
            await winner?.release();
            throw error;
          }
        },
      }));
    },
  },
  {
    title: "does not release once the caller's signal has aborted",
    caught: "tenure-abort-in-work",
    tenure: (tenure) =>
      front(tenure, ({ acquire }) => ({
        hold: async (name: string, options: AcquireOptions, work: (lease: AnyLease) => unknown) => {
          const lease = await acquire.call(tenure, name, options);
          const value = await work(lease);
          if (options.signal?.aborted !== true) await lease.release();
          return value;
        },
      })),
  },
  {
    title: "asks the store again for each release",
    caught: "tenure-late-release",
    tenure: (tenure, backend) =>
      front(tenure, ({ acquire }) => ({
        acquire: async (name: string, options: AcquireOptions) => {
          const lease = await acquire.call(tenure, name, options);
          const release = async (): Promise<string> => {
            const call = { signal: new AbortController().signal, timeoutMs: 1_000 };
            const { holder, token } = lease;
            return (await backend.release([{ name, holder, token }], call))[0] ?? "not-held";
          };
          return over(lease, { release });
        },
      })),
  },
  {
    title: "reads the token of a lease again from the store",
    caught: "tenure-stale-holder",
    tenure: (tenure) => {
      let newest: FencingToken | undefined;
      return front(tenure, ({ acquire }) => ({
        acquire: async (name: string, options: AcquireOptions) => {
          const lease = await acquire.call(tenure, name, options);
          newest = lease.token;
          const shown = async (): Promise<void> => {
            newest = ((await tenure.inspect(name))?.token ?? newest) as typeof newest;
          };
          return new Proxy(lease, {
            get(target, key) {
              if (key === "token") return newest;
              if (key === "state") return "held";
              const value: unknown = Reflect.get(target, key, target);
              if (key === "release") return () => shown();
              return typeof value === "function" ? value.bind(target) : value;
            },
          });
        },
      }));
    },
  },
  {
    title: "cuts bad names until they fit",
    caught: "tenure-names",
    tenure: (tenure) =>
      front(tenure, ({ tryAcquire }) => ({
        tryAcquire: (name: string) =>
          tryAcquire.call(tenure, name.replaceAll("\0", "").slice(0, 500) || "empty"),
      })),
  },
];
