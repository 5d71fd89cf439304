/** Resources that are wrong on purpose: the fence's rules with one of them changed. */
import { decide, type FenceRequest, type MarkRecord, type Verdict } from "../../fences/decide.js";
import { memoryStore } from "../../fences/memory/index.js";
import type { FenceStore } from "../../fences/contract.js";
import type { Cell, Entry, ReadCell } from "../../fences/memory/index.js";
import type { SimulatedProcess } from "../process.js";
import { singleStore, type MakeStore } from "../simulation.js";
import { replicatedPair } from "../stores/replicated-pair.js";
import { sessionStore } from "../stores/session-store.js";
import { SHORT_RUN, type Variant, type VariantRun } from "./variant.js";

type Judge = (record: MarkRecord | null, request: FenceRequest) => Verdict;

const ARMED: VariantRun = { ...SHORT_RUN, fence: "armed", elects: false, store: singleStore() };

/** The fence's own store in memory, with another judge, and perhaps late effects. */
function judged(judge: Judge, lateMs = 0, keeps: (request: FenceRequest) => boolean = () => true) {
  return (
    entries: Map<string, Entry<number>>,
    server: SimulatedProcess,
  ): FenceStore<Cell<number>, ReadCell<number>> => {
    const plain = memoryStore(entries);
    const step = async (request: FenceRequest): Promise<Verdict> => {
      const { resource } = request;
      const verdict = judge(entries.get(resource)?.record ?? null, request);
      if (lateMs > 0) await server.sleep(lateMs);
      const entry = entries.get(resource);
      if (verdict.accepted && (entry === undefined || keeps(request))) {
        entries.set(resource, { record: verdict.record, value: entry?.value });
      }
      return verdict;
    };
    return {
      ...plain,
      arm: step,
      read: async (request, work) => {
        const verdict = await step(request);
        const value = entries.get(request.resource)?.value;
        if (!verdict.accepted) return verdict;
        return { accepted: true, result: await work({ get: () => value }) };
      },
      write: async (request, work) => {
        const verdict = await step(request);
        if (!verdict.accepted) return verdict;
        const { resource } = request;
        const set = (value: number | undefined): void => {
          entries.set(resource, { record: entries.get(resource)!.record, value });
        };
        const get = (): number | undefined => entries.get(resource)?.value;
        const result = await work({ get, set, delete: () => set(undefined) });
        return { accepted: true, result };
      },
    };
  };
}

function accept({ scope, token, holder, arm, n }: FenceRequest): Verdict {
  return { accepted: true, record: { scope, token, holder, arm, n, past: [] } };
}

/** Accepts what the rules refuse for this reason. */
function without(why: string): Judge {
  return (record, request) => {
    const verdict = decide(record, request);
    return verdict.accepted || verdict.why !== why ? verdict : accept(request);
  };
}

const strict: Judge = (record, request) =>
  request.op === "arm" || record === null || request.token > record.token
    ? decide(record, request)
    : { accepted: false, why: "stale", record };

/** A newcomer swaps the mark for its own, whatever it was; the rest compares for equality. */
const unordered: Judge = (record, request) =>
  request.op === "arm" ? accept(request) : decide(record, request);

/** Of two writes with the same number the second is taken for the first. */
const orEqual: Judge = (record, request) => {
  const verdict = decide(record, request);
  const isAgain = !verdict.accepted && verdict.why === "repeated" && request.n === record?.n;
  return isAgain ? accept(request) : verdict;
};

/** Tokens as text, read from the left. */
const asText: Judge = (record, request) => {
  if (record === null || String(request.token) === String(record.token)) {
    return decide(record, request);
  }
  const isOlder = String(request.token) < String(record.token);
  const token = isOlder ? record.token - 1n : record.token + 1n;
  const verdict = decide(record, { ...request, token });
  return verdict.accepted ? accept(request) : verdict;
};

/**
 * A pair that gives a token out twice: its clocks are behind its counters, the replica has heard
 * nothing for a while, and then it takes over.
 */
const twice: MakeStore = (world, network) => {
  const pair = replicatedPair(world, network);
  world.after(1_000, () => {
    for (const { server } of [pair.primary, pair.replica]) server.jumpWall(-3_600_000);
  });
  world.after(20_000, () => network.cut("store", "replica"));
  world.after(24_000, () => {
    if (pair.find().model === pair.primary) pair.failOver();
  });
  return pair;
};

function fence(
  name: string,
  title: string,
  store: ReturnType<typeof judged>,
  more: Partial<VariantRun> = {},
  defencesOff = "the lease's signal and the look at the clock before a write",
): Variant {
  const work = { heeds: false, checks: false, ttlMs: 2_000 };
  const control = { ...ARMED, work, ...more };
  const flawed = { ...control, resource: { store } };
  const breaks = ["I4", "I5", "I6"] as const;
  return { name, title, where: "resource", defencesOff, breaks, flawed, control };
}

const DOUBLING = { isLossy: false, network: { duplicate: 0.05 } };
const unarmed: VariantRun = { ...ARMED, work: { heeds: false, checks: false, ttlMs: 2_000 } };

export const fenceVariants: readonly Variant[] = [
  fence("strict-greater", "A write needs a token above the mark.", judged(strict)),
  fence(
    "no-mark-update",
    "The mark is compared, and only the first arming raises it.",
    judged(decide, 0, () => false),
  ),
  fence("check-then-write", "Check and write are two steps.", judged(decide, 300)),
  {
    name: "unarmed-fence",
    title: "The mark is raised by writes alone.",
    where: "resource",
    defencesOff: "the lease's signal and the look at the clock before a write",
    breaks: ["I5"],
    flawed: { ...unarmed, fence: "naive" },
    control: unarmed,
  },
  fence("arm-without-order", "An arming takes over from a newer one.", judged(unordered)),
  fence(
    "equal-token-any-grant",
    "An equal token is taken from another holder.",
    judged(without("conflict")),
    { store: twice },
  ),
  fence("no-write-numbers", "Writes have no numbers.", judged(without("repeated")), DOUBLING),
  fence("write-number-or-equal", "A write number may be repeated.", judged(orEqual), DOUBLING),
  fence("lexicographic-tokens", "Tokens are compared as text.", judged(asText), {
    store: (world) => sessionStore(world),
    work: { heeds: false, checks: false, ttlMs: 10_000 },
  }),
];
