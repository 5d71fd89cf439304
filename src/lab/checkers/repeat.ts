/** I13: one seed, one run. */
import type { HistoryEvent } from "../history.js";
import type { Violation } from "./violation.js";

/** Where two runs of one seed part; nothing where they are the same. */
export function checkRepeat(
  seed: number,
  one: readonly HistoryEvent[],
  two: readonly HistoryEvent[],
): readonly Violation[] {
  const length = Math.max(one.length, two.length);
  for (let nth = 0; nth < length; nth++) {
    if (JSON.stringify(one[nth]) === JSON.stringify(two[nth])) continue;
    const atMs = one[nth]?.atMs ?? two[nth]?.atMs ?? 0;
    const text = `seed ${seed} gave two runs, which part at fact ${nth}`;
    return [{ invariant: "I13", text, atMs }];
  }
  return [];
}
