/** What is known of each invariant after a run. */
import { INVARIANTS, type InvariantId, type Violation } from "../checkers/violation.js";
import type { FactKind } from "../history.js";
import type { Reported } from "./reported.js";

/** One invariant after one run. `unknown`: nothing in the run could have shown a breach. */
export interface Verdict {
  readonly id: InvariantId;
  readonly says: string;
  readonly is: "pass" | "fail" | "unknown";
  readonly violations: readonly Violation[];
}

/**
 * Facts without which nothing was put to the test. What has none is looked at by random runs only,
 * which know when all has to be calm again.
 */
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

/** The verdicts on a run, by the numbers of the invariants. */
export function verdictsOf({ events, violations, checked = [] }: Reported): readonly Verdict[] {
  const kinds = new Set<FactKind>(events.map(({ kind }) => kind));
  return (Object.keys(INVARIANTS) as InvariantId[]).map((id) => {
    const own = violations.filter(({ invariant }) => invariant === id);
    const wasTested = checked.includes(id) || EVIDENCE[id].some((kind) => kinds.has(kind));
    const is = own.length > 0 ? "fail" : wasTested ? "pass" : "unknown";
    return { id, says: INVARIANTS[id], is, violations: own };
  });
}
