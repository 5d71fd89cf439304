/** What lies between the real core and its store, wrong on purpose. */
import type { Backend, Call, Released } from "../../core/backend.js";
import type { FencingToken } from "../../core/token.js";
import type { SimulatedProcess } from "../process.js";
import { singleStore } from "../simulation.js";
import { sessionStore } from "../stores/session-store.js";
import { SHORT_RUN, type Variant, type VariantRun } from "./variant.js";

type AnyBackend = Backend<FencingToken | undefined>;
type Wrap = (inner: AnyBackend, process: SimulatedProcess) => AnyBackend;

const PLAIN: VariantRun = { ...SHORT_RUN, fence: "none", elects: false, store: singleStore() };
/** Long leases and short waits: what is left behind stands for long. */
const IMPATIENT: VariantRun = {
  ...PLAIN,
  isLossy: false,
  network: { loss: 0.05 },
  work: { ttlMs: 40_000, waitMs: 4_000 },
};

const LONG_WORK = { writes: 20, thinkMs: [50, 2_000] } as const;

function wrapped(
  name: string,
  title: string,
  breaks: Variant["breaks"],
  control: VariantRun,
  backend: Wrap,
): Variant {
  const flawed = { ...control, fitting: { backend } };
  return { name, title, where: "backend", defencesOff: "the fence", breaks, flawed, control };
}

/** Counted from the reply: the time on the way is added to the TTL that the core counts. */
const deadOnArrival: Wrap = (inner, process) => ({
  ...inner,
  acquire: async (request, call) => {
    const { clock } = process.runtime;
    const reading = (): number => Math.max(clock.monotonicMs(), (clock.uptimeMs() ?? 0) - 4_000);
    const sentMs = reading();
    const answer = await inner.acquire(request, call);
    if ("held" in answer) return answer;
    const { grant } = answer;
    return { grant: { ...grant, ttlMs: grant.ttlMs + reading() - sentMs } };
  },
});

const noCompensation: Wrap = (inner) => ({
  ...inner,
  release: async (requests, call) => {
    const whole = requests.filter(({ token }) => token !== undefined);
    if (whole.length === requests.length) return inner.release(requests, call);
    return requests.map((): Released => "not-held");
  },
});

const newIds: Wrap = (inner, process) => ({
  ...inner,
  acquire: (request, call) =>
    inner.acquire({ ...request, holder: process.runtime.random.id() }, call),
});

/** Reads who holds the name, and releases that. */
const blindRelease: Wrap = (inner) => ({
  ...inner,
  release: async (requests, call) =>
    Promise.all(requests.map(async ({ name }) => releaseAny(inner, name, call))),
});

async function releaseAny(inner: AnyBackend, name: string, call: Call): Promise<Released> {
  const held = await inner.inspect(name, call);
  if (held?.holder === undefined) return "not-held";
  const [answer] = await inner.release([{ name, holder: held.holder }], call);
  return answer ?? "unknown";
}

/** A new session in the place of one that has ended, as a pool hands out a new connection. */
const silentReconnect: Wrap = (inner) => {
  const sessions = inner.sessions!;
  const now = new Map<string, string>();
  return {
    ...inner,
    sessions: {
      ...sessions,
      keepAlive: async (id, call) => {
        const answer = await sessions.keepAlive(now.get(id) ?? id, call);
        if (answer === "gone") now.set(id, (await sessions.open(10_000, call)).id);
        return "alive";
      },
    },
    renew: async (grants, call) => {
      const answers = await inner.renew(grants, call);
      return answers.map((answer) => (typeof answer === "object" ? "renewed" : answer));
    },
  };
};

export const backendVariants: readonly Variant[] = [
  wrapped(
    "no-validity-check",
    "A grant that arrives after its own deadline is taken for a lease.",
    ["I7"],
    { ...PLAIN, network: { minMs: 1, maxMs: 1_500 }, work: { ttlMs: 2_000 } },
    deadOnArrival,
  ),
  wrapped(
    "no-compensating-release",
    "An attempt that was given up is not released.",
    ["I10"],
    IMPATIENT,
    noCompensation,
  ),
  wrapped(
    "retry-with-new-id",
    "A try after a lost answer comes under a new holder, and loses to the first.",
    ["I10"],
    IMPATIENT,
    newIds,
  ),
  wrapped(
    "stale-resign",
    "A leader that was deposed ends the lease of whoever leads now.",
    ["I7", "I8"],
    { ...PLAIN, elects: true },
    blindRelease,
  ),
  wrapped(
    "reconnect-as-held",
    "A new session goes on as if it were the one that ended.",
    ["I7"],
    { ...PLAIN, store: (world) => sessionStore(world), work: LONG_WORK },
    silentReconnect,
  ),
];
