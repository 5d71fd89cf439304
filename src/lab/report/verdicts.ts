/** What is known of each invariant after a run. */
import { INVARIANTS, type InvariantId, type Violation } from "../checkers/violation.js";
import type { FactKind } from "../history.js";
import type { Reported } from "./reported.js";

/** One invariant after one run. `unknown`: nothing in the run could have shown a breach. */
export interface Verdict {
  readonly id: InvariantId;
  readonly says: string;
  readonly is: "pass" | "fail" | "unknown";
  /** Why it is unknown. */
  readonly why?: string;
  readonly violations: readonly Violation[];
}

/** Facts without which nothing was put to the test. What has none takes more than facts to tell. */
const EVIDENCE: Readonly<Record<InvariantId, readonly FactKind[]>> = {
  I1: ["grant"],
  I2: ["extend", "end"],
  I3: ["grant"],
  I4: ["arm"],
  I5: ["write"],
  I6: ["arm"],
  I7: ["believes"],
  I8: ["elected", "observed"],
  I9: [],
  I10: [],
  I11: [],
  I12: ["acked"],
  I13: [],
};

/** What a run had to have had. */
const UNTESTED: Readonly<Record<InvariantId, string>> = {
  I1: "the store granted nothing",
  I2: "no lease was renewed or ended",
  I3: "the store granted nothing",
  I4: "no resource was armed",
  I5: "nothing was written",
  I6: "no resource was armed",
  I7: "no client looked at a lease of its own",
  I8: "nobody stood for election",
  I9: "nobody waited when a name came free",
  I10: "no client was closed at the end",
  I11: "no holder's time ran out while somebody waited",
  I12: "no client was told what became of a write",
  I13: "it ran once",
};

/** The verdicts on a run, by the numbers of the invariants. */
export function verdictsOf({
  events,
  violations,
  checked = [],
  unasked = {},
}: Reported): readonly Verdict[] {
  const kinds = new Set<FactKind>(events.map(({ kind }) => kind));
  return (Object.keys(INVARIANTS) as InvariantId[]).map((id) => {
    const own = violations.filter(({ invariant }) => invariant === id);
    const wasTested = checked.includes(id) || EVIDENCE[id].some((kind) => kinds.has(kind));
    const is = own.length > 0 ? "fail" : wasTested ? "pass" : "unknown";
    const about = { id, says: INVARIANTS[id], is, violations: own } as const;
    return is === "unknown" ? { ...about, why: unasked[id] ?? UNTESTED[id] } : about;
  });
}
