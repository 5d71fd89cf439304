/** What a checker found. */

/** The invariants, by the names under which they are published. */
export type InvariantId =
  "I1" | "I2" | "I3" | "I4" | "I5" | "I6" | "I7" | "I8" | "I9" | "I10" | "I11" | "I12" | "I13";

/** One breach of an invariant. */
export interface Violation {
  readonly invariant: InvariantId;
  /** What happened, in a sentence. */
  readonly text: string;
  readonly atMs: number;
}

/** What an invariant says, in a few words. */
export const INVARIANTS: Readonly<Record<InvariantId, string>> = {
  I1: "the store never has two holders of one name",
  I2: "only its holder extends or ends a grant before its time",
  I3: "tokens of one name only grow",
  I4: "the fenced register decides as its rules say",
  I5: "no accepted write wipes out another one unseen",
  I6: "the newest armed holder is never refused",
  I7: "a lease that answers held is held",
  I8: "one leader for each term, and nothing after its end",
  I9: "no wake-up is lost",
  I10: "nothing is left behind",
  I11: "a dead holder's lease is free again in time",
  I12: "every outcome is told as it was",
  I13: "one seed, one run",
};
