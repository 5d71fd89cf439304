/** Clients that are wrong on purpose inside: the small lock with a flaw, and what uses a lease. */
import type { Backend } from "../../core/backend.js";
import type { Lease } from "../../core/lease.js";
import { Tenure } from "../../core/tenure.js";
import type { FencingToken } from "../../core/token.js";
import type { SimulatedProcess } from "../process.js";
import { singleStore, type Fitting } from "../simulation.js";
import type { Lock } from "../worker.js";
import type { LockFlaw } from "./simple-calls.js";
import { SimpleLock } from "./simple-lock.js";
import { SHORT_RUN, type Variant, type VariantRun } from "./variant.js";

type Token = FencingToken | undefined;

const PLAIN: VariantRun = { ...SHORT_RUN, fence: "none", elects: false, store: singleStore() };
const TOLD: VariantRun = { ...PLAIN, store: singleStore({ waiting: "notify" }) };
const LOSSY = { isLossy: false, network: { loss: 0.05 } };

function fitted(flaw?: LockFlaw): { readonly fitting: Fitting } {
  return { fitting: { lock: (backend, process) => new SimpleLock({ backend, process, flaw }) } };
}

function lock(
  name: LockFlaw,
  title: string,
  breaks: Variant["breaks"],
  run: VariantRun = PLAIN,
  defencesOff = "the fence",
): Variant {
  const flawed = { ...run, ...fitted(name) };
  const control = { ...run, ...fitted() };
  return { name, title, where: "lock", defencesOff, breaks, flawed, control };
}

/** A tenure whose leases are not given back when the work under them threw. */
function leaky(backend: Backend<Token>, process: SimulatedProcess): Lock {
  const opening = Tenure.open(backend, process.runtime, { purpose: "efficiency" });
  return {
    acquire: async (name, options) => {
      const tenure = await opening;
      const lease = await tenure.acquire(name, options);
      const from = process.world.history.events.length;
      const release = async (): Promise<"released" | "not-held"> =>
        hasThrown(process, from) ? "not-held" : lease.release();
      return new Proxy<Lease<Token>>(lease, {
        get: (target, key) => {
          if (key === "release") return release;
          const value: unknown = Reflect.get(target, key, target);
          return typeof value === "function" ? (value as () => unknown).bind(target) : value;
        },
      });
    },
  };
}

/** Whether the work of a client ended with an error: it has written, and was not told so. */
function hasThrown({ name, world }: SimulatedProcess, from: number): boolean {
  const since = world.history.events.slice(from);
  return since.some(
    (event) => event.kind === "acked" && event.client === name && event.outcome !== "ok",
  );
}

export const lockVariants: readonly Variant[] = [
  lock("deadline-from-reply", "The deadline counts from the answer.", ["I7"], {
    ...PLAIN,
    network: { minMs: 1, maxMs: 1_500 },
    work: { ttlMs: 10_000, writes: 12, thinkMs: [50, 1_500] },
  }),
  lock("no-local-deadline", "A lease is held until the store says otherwise.", ["I7"]),
  lock(
    "token-re-read",
    "The token is the one that the store shows at each renewal.",
    ["I3", "I7"],
    PLAIN,
    "the fence and the local deadline",
  ),
  lock(
    "lost-wake",
    "Looks, then subscribes, and misses the release between the two.",
    ["I9", "I11"],
    TOLD,
    "the fallback poll",
  ),
  lock(
    "no-fallback-poll",
    "Relies on notices, which get lost.",
    ["I9", "I11"],
    { ...TOLD, ...LOSSY },
    "none",
  ),
  lock("leak-on-cancel", "A grant that comes after its waiter gave up is kept.", ["I10"], {
    ...PLAIN,
    ...LOSSY,
    work: { ttlMs: 40_000, waitMs: 4_000 },
  }),
  lock("renew-pile-up", "Renews by the clock, whether the last one was answered or not.", ["I10"]),
  {
    name: "leak-on-throw",
    title: "A lease is not given back when its work throws.",
    where: "lock",
    defencesOff: "the fence",
    breaks: ["I10"],
    flawed: { ...PLAIN, ...LOSSY, fitting: { lock: leaky } },
    control: { ...PLAIN, ...LOSSY },
  },
];
