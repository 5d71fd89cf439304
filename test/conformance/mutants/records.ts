import type { AnyBackend } from "../../../src/testing/subject.js";
import { change, declare, type Mutant, type Wrap } from "./mutant.js";

type Release = AnyBackend["release"];
type Given = Parameters<Release>[0][number];

function releaseEach(
  release: (backend: AnyBackend, request: Given) => Promise<"released" | "not-held">,
): (backend: AnyBackend) => AnyBackend {
  return (backend) =>
    change(backend, {
      release: (requests) => Promise.all(requests.map((request) => release(backend, request))),
    });
}

const call = { signal: new AbortController().signal, timeoutMs: 1_000 };

async function releaseOne(
  backend: AnyBackend,
  request: Given,
): Promise<"released" | "not-held"> {
  const [outcome] = await backend.release([request], call);
  return outcome === "released" ? "released" : "not-held";
}

/** Every method that takes a name, with the name changed on its way to the store. */
function renamed(as: (name: string) => string): (backend: AnyBackend) => AnyBackend {
  const put = <N extends { readonly name: string }>(named: N): N => ({
    ...named,
    name: as(named.name),
  });
  return (backend) =>
    change(backend, {
      acquire: (request, its) => backend.acquire(put(request), its),
      renew: (grants, its) => backend.renew(grants.map(put), its),
      release: (requests, its) => backend.release(requests.map(put), its),
      inspect: (name, its) => backend.inspect(as(name), its),
    });
}

function listing(matches: (name: string, prefix: string) => boolean): Wrap {
  return (backend) =>
    change(backend, {
      async *list(prefix, its) {
        for await (const held of backend.list("", its)) if (matches(held.name, prefix)) yield held;
      },
    });
}

/** Wrong releases, breaks, names, answers about records, and lives of clients. */
export const recordMutants: readonly Mutant[] = [
  {
    title: "releases whatever is there",
    caught: "release-foreign",
    wrap: releaseEach(async (backend, { name }) => {
      const shown = await backend.inspect(name, call);
      if (shown !== null) await backend.break(name, shown.token!, call);
      return "released";
    }),
  },
  {
    title: "releases by holder alone",
    caught: "release-compares-token",
    wrap: releaseEach((backend, { name, holder }) => releaseOne(backend, { name, holder })),
  },
  {
    title: "releases by token alone",
    caught: "release-compares-holder",
    wrap: releaseEach(async (backend, request) => {
      const holder = (await backend.inspect(request.name, call))?.holder ?? request.holder;
      return releaseOne(backend, { ...request, holder });
    }),
  },
  {
    title: "answers released however often",
    caught: "release-frees",
    wrap: releaseEach(async (backend, request) => {
      await releaseOne(backend, request);
      return "released";
    }),
  },
  {
    title: "answers released for what has expired",
    caught: "release-after-expiry",
    wrap: releaseEach(async (backend, request) => {
      const shown = await backend.inspect(request.name, call);
      await releaseOne(backend, request);
      return shown === null || shown.holder === request.holder ? "released" : "not-held";
    }),
  },
  {
    title: "answers a batch of releases out of order",
    caught: "release-outcomes",
    wrap: (backend) =>
      change(backend, {
        release: async (requests, its) => (await backend.release(requests, its)).toReversed(),
      }),
  },
  {
    title: "does nothing for an attempt without token",
    caught: "release-attempt",
    wrap: releaseEach(async (backend, request) =>
      request.token === undefined ? "not-held" : releaseOne(backend, request),
    ),
  },
  {
    title: "breaks whatever is there",
    caught: "break-exact",
    wrap: (backend) =>
      change(backend, {
        break: async (name, token, its) => {
          const shown = await backend.inspect(name, its);
          return backend.break(name, shown?.token ?? token, its);
        },
      }),
  },
  {
    title: "takes the two forms of an accented letter for one",
    caught: "names-independent",
    wrap: renamed((name) => name.normalize()),
  },
  {
    title: "cuts long names off",
    caught: "names-independent",
    wrap: renamed((name) => name.slice(0, 255)),
  },
  {
    title: "ignores case",
    caught: "names-independent",
    wrap: renamed((name) => name.toLowerCase()),
  },
  {
    title: "trims",
    caught: "names-independent",
    wrap: renamed((name) => name.trim()),
  },
  {
    title: "takes a prefix for a pattern",
    caught: "names-listed",
    wrap: listing((name, prefix) => {
      const plain = prefix.replaceAll(/[.*+?^${}()|[\]\\/]/g, "\\$&");
      return new RegExp(`^${plain.replaceAll("%", ".*").replaceAll("_", ".")}`, "s").test(name);
    }),
  },
  {
    title: "takes a prefix for a folder",
    caught: "names-listed",
    wrap: listing((name, prefix) => name === prefix || name.startsWith(`${prefix}/`)),
  },
  {
    title: "gives numbers in the holder's info back as text",
    caught: "inspect-shows",
    wrap: (backend) =>
      change(backend, {
        inspect: async (name, its) => {
          const shown = await backend.inspect(name, its);
          const { pid } = shown?.holderInfo ?? {};
          return shown && { ...shown, holderInfo: { pid: String(pid) } };
        },
      }),
  },
  {
    title: "shows what has expired",
    caught: "inspect-expired",
    wrap: (backend) =>
      change(backend, {
        inspect: async (name, its) => (await backend.inspect(name, its)) ?? { why: "held" },
      }),
  },
  {
    title: "tells the TTL for the time left",
    caught: "ttl-left-falls",
    wrap: (backend) =>
      change(backend, {
        inspect: async (name, its) => {
          const shown = await backend.inspect(name, its);
          return shown?.ttlMs === undefined ? shown : { ...shown, leftMs: shown.ttlMs };
        },
      }),
  },
  {
    title: "gives each client a storeId",
    caught: "store-id-stable",
    wrap: (backend, { random }) => change(backend, { storeId: random.id() }),
  },
  {
    title: "ends leases when a client closes",
    caught: "leases-outlive-client",
    wrap: (backend) =>
      change(backend, {
        close: async () => {
          for await (const { name, token } of backend.list("", call)) {
            await backend.break(name, token!, call);
          }
          await backend.close();
        },
      }),
  },
  {
    title: "hangs when it is closed twice",
    caught: "close-twice",
    wrap: (backend) => {
      let closed = false;
      return change(backend, {
        close: () => {
          if (closed) return new Promise<never>(() => {});
          closed = true;
          return backend.close();
        },
      });
    },
  },
  {
    title: "leaves a timer running",
    caught: "close-leaves-nothing",
    wrap: (backend, { timers }) => {
      timers.after(3_600_000, () => {});
      return backend;
    },
  },
  {
    title: "never answers a call that was aborted",
    caught: "abort-settles",
    wrap: (backend) =>
      change(backend, {
        inspect: (name, its) =>
          its.signal.aborted ? new Promise<never>(() => {}) : backend.inspect(name, its),
      }),
  },
  {
    title: "declares a TTL of 0",
    caught: "manifest-shape",
    wrap: (backend) => declare(backend, { minTtlMs: 0 }),
  },
  {
    title: "declares another kind of waiting",
    caught: "manifest-waiting",
    wrap: (backend) => declare(backend, { waiting: "poll" }),
  },
  {
    title: "declares sessions and has none",
    caught: "manifest-sessions",
    wrap: (backend) => declare(backend, { ttlScope: "session" }),
  },
  {
    title: "declares a held check without proof",
    caught: "held-check-proof",
    wrap: (backend) => {
      const { proof: _, ...rest } = backend;
      return rest;
    },
  },
  {
    title: "gives a proof that always holds",
    caught: "held-check-holds",
    wrap: (backend) => change(backend, { proof: () => () => true }),
  },
  {
    title: "has a held check and does not say so",
    caught: "held-check-absent",
    wrap: (backend) => declare(backend, { heldCheck: false }),
  },
];
