import type { Grant, Held } from "../../../src/core/backend.js";
import { toToken, type FencingToken } from "../../../src/core/token.js";
import type { AnyBackend } from "../../../src/testing/subject.js";
import { observedOver } from "../variants.js";
import { change, type Mutant } from "./mutant.js";

type AnyGrant = Grant<FencingToken | undefined>;
type Acquire = AnyBackend["acquire"];

/** A mutant of acquire that first looks, as many a home-made lock does. */
function lookFirst(
  look: (
    shown: Held | null,
    acquire: () => ReturnType<Acquire>,
    given: { readonly backend: AnyBackend; readonly request: Parameters<Acquire>[0] },
  ) => ReturnType<Acquire>,
): (backend: AnyBackend) => AnyBackend {
  return (backend) =>
    change(backend, {
      acquire: async (request, call) => {
        const shown = await backend.inspect(request.name, call);
        return look(shown, () => backend.acquire(request, call), { backend, request });
      },
    });
}

function renewEach(
  renew: (backend: AnyBackend, grant: AnyGrant) => Promise<"renewed" | { lost: "absent" }>,
): (backend: AnyBackend) => AnyBackend {
  return (backend) =>
    change(backend, {
      renew: (grants) => Promise.all(grants.map((grant) => renew(backend, grant))),
    });
}

const call = { signal: new AbortController().signal, timeoutMs: 1_000 };

/** Wrong grants and renewals. */
export const grantMutants: readonly Mutant[] = [
  {
    title: "looks whether the name is free and then takes it, in two steps",
    caught: "acquire-one-winner",
    wrap: lookFirst(async (shown, acquire, { request }) => {
      const answer = await acquire();
      if (shown !== null || "grant" in answer) return answer;
      const { name, holder, ttlMs } = request;
      return { grant: { name, holder, ttlMs, token: toToken(answer.held.token! + 1n) } };
    }),
  },
  {
    title: "refuses a holder its own lease",
    caught: "acquire-idempotent",
    wrap: lookFirst(async (shown, acquire, { request }) =>
      shown?.holder === request.holder ? { held: shown } : acquire(),
    ),
  },
  {
    title: "gives a repeat a second token",
    caught: "acquire-idempotent",
    wrap: lookFirst(async (shown, acquire, { backend, request }) => {
      if (shown?.holder === request.holder) await backend.release([request], call);
      return acquire();
    }),
  },
  {
    title: "answers a repeat without starting its time anew",
    caught: "acquire-repeat-restarts",
    wrap: lookFirst(async (shown, acquire, { request }) => {
      if (shown?.holder !== request.holder) return acquire();
      const { name, holder, ttlMs } = request;
      return { grant: { name, holder, ttlMs, token: toToken(shown.token!) } };
    }),
  },
  {
    title: "refuses without telling the token",
    caught: "acquire-refusal",
    wrap: lookFirst(async (_shown, acquire) => {
      const answer = await acquire();
      return "grant" in answer ? answer : { held: { why: "held" } };
    }),
  },
  {
    title: "takes a watched record over although it was renewed meanwhile",
    caught: "acquire-observed",
    wrap: (backend) => {
      const observed = observedOver(backend);
      return change(observed, {
        acquire: async (request, its) => {
          if (request.takeOver === undefined) return observed.acquire(request, its);
          const version = (await observed.inspect(request.name, its))?.version;
          return observed.acquire({ ...request, ...(version && { takeOver: version }) }, its);
        },
      });
    },
  },
  {
    title: "leaves the old holder's info in a record that is taken over",
    caught: "acquire-take-over",
    wrap: (backend) => {
      const infos = infosOf(backend.storeId);
      return change(backend, {
        acquire: async (request, its) => {
          infos.set(request.name, infos.get(request.name) ?? request.holderInfo);
          return backend.acquire(request, its);
        },
        inspect: async (name, its) => {
          const shown = await backend.inspect(name, its);
          const holderInfo = infos.get(name);
          return shown && { ...shown, ...(holderInfo === undefined ? {} : { holderInfo }) };
        },
      });
    },
  },
  {
    title: "keeps attempts for an hour, so that an abandoned one blocks the name",
    caught: "acquire-abandoned",
    wrap: lookFirst((_shown, _acquire, { backend, request }) =>
      backend.acquire({ ...request, ttlMs: 3_600_000 }, call),
    ),
  },
  {
    title: "gives half the time that it says",
    caught: "ttl-lasts",
    wrap: lookFirst((_shown, _acquire, { backend, request }) =>
      backend.acquire({ ...request, ttlMs: request.ttlMs / 2 }, call),
    ),
  },
  {
    title: "keeps whole seconds only, and declares less",
    caught: "ttl-shortest",
    wrap: lookFirst((_shown, _acquire, { backend, request }) =>
      backend.acquire({ ...request, ttlMs: Math.ceil(request.ttlMs / 1_000) * 1_000 }, call),
    ),
  },
  {
    title: "keeps the TTL in 32 bits, and declares more",
    caught: "ttl-longest",
    wrap: lookFirst((_shown, _acquire, { backend, request }) =>
      backend.acquire({ ...request, ttlMs: (request.ttlMs | 0) & 0x7fff_ffff }, call),
    ),
  },
  {
    title: "re-creates on renewal what has expired",
    caught: "renew-never-revives",
    wrap: renewEach(recreate),
  },
  {
    title: "re-creates on renewal what was released",
    caught: "renew-never-recreates",
    wrap: renewEach(recreate),
  },
  {
    title: "says renewed and does nothing",
    caught: "renew-prolongs",
    wrap: renewEach(async () => "renewed"),
  },
  {
    title: "adds the TTL to the time left",
    caught: "renew-sets",
    wrap: renewEach(async (backend, grant) => {
      const leftMs = (await backend.inspect(grant.name, call))?.leftMs ?? 0;
      await backend.renew([{ ...grant, ttlMs: grant.ttlMs + leftMs }], call);
      return "renewed";
    }),
  },
  {
    title: "renews for the TTL of the grant, whatever it is asked for",
    caught: "renew-other-ttl",
    wrap: renewEach(async (backend, grant) => {
      const ttlMs = (await backend.inspect(grant.name, call))?.ttlMs ?? grant.ttlMs;
      await backend.renew([{ ...grant, ttlMs }], call);
      return "renewed";
    }),
  },
  {
    title: "renews by holder alone",
    caught: "renew-compares-token",
    wrap: renewEach(async (backend, grant) => {
      const shown = await backend.inspect(grant.name, call);
      if (shown?.holder !== grant.holder) return { lost: "absent" };
      await backend.renew([{ ...grant, token: toToken(shown.token!) }], call);
      return "renewed";
    }),
  },
  {
    title: "renews by token alone",
    caught: "renew-compares-holder",
    wrap: renewEach(async (backend, grant) => {
      const shown = await backend.inspect(grant.name, call);
      if (shown?.holder === undefined) return { lost: "absent" };
      await backend.renew([{ ...grant, holder: shown.holder }], call);
      return "renewed";
    }),
  },
  {
    title: "answers a batch out of order",
    caught: "renew-outcomes",
    wrap: (backend) =>
      change(backend, {
        renew: async (grants, its) => (await backend.renew(grants, its)).toReversed(),
      }),
  },
  {
    title: "renews fewer at once than declared",
    caught: "renew-batch",
    wrap: (backend) =>
      change(backend, {
        renew: async (grants, its) => {
          const done = await backend.renew(grants.slice(0, 100), its);
          return grants.map((_, i) => done[i] ?? "unavailable");
        },
      }),
  },
  {
    title: "cannot renew nothing",
    caught: "renew-nothing",
    wrap: (backend) =>
      change(backend, {
        renew: async (grants, its) => {
          if (grants.length === 0) throw new Error("syntax error near IN ()");
          return backend.renew(grants, its);
        },
      }),
  },
];

const infosByStore = new Map<string, Map<string, Held["holderInfo"]>>();

function infosOf(storeId: string): Map<string, Held["holderInfo"]> {
  const infos = infosByStore.get(storeId) ?? new Map<string, Held["holderInfo"]>();
  infosByStore.set(storeId, infos);
  return infos;
}

async function recreate(backend: AnyBackend, grant: AnyGrant): Promise<"renewed"> {
  const { name, holder, ttlMs } = grant;
  const [outcome] = await backend.renew([grant], call);
  if (outcome !== "renewed") await backend.acquire({ name, holder, ttlMs }, call);
  return "renewed";
}
