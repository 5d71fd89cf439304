/** A candidate that is wrong on purpose. */
import { electionOf, type CandidateOptions } from "../candidate.js";
import { TenureError } from "../../core/errors.js";
import type { Client } from "../simulation.js";
import { singleStore } from "../simulation.js";
import { SHORT_RUN, type Variant, type VariantRun } from "./variant.js";

const ELECTS: VariantRun = { ...SHORT_RUN, fence: "none", elects: true, store: singleStore() };

/** Works through what it has queued, and looks only afterwards whether it still leads. */
async function standBlindly(client: Client, options: CandidateOptions = {}): Promise<void> {
  const { process } = client;
  const { history } = process.world;
  const { stepMs = 500, signal } = options;
  const candidacy = electionOf(client, options);
  while (!(signal?.aborted === true)) {
    try {
      await candidacy.lead(async (term) => {
        const about = { key: term.name, client: process.name, term: String(term.term) };
        history.add({ kind: "elected", ...about });
        const end = (): void => history.add({ kind: "revoked", ...about });
        term.signal.addEventListener("abort", end, { once: true });
        do {
          await process.sleep(stepMs);
          history.add({ kind: "led", ...about });
        } while (!term.signal.aborted);
      }, signal === undefined ? {} : { signal });
    } catch (error) {
      if (!(error instanceof TenureError)) process.world.fail(error);
      await process.sleep(stepMs);
    }
  }
}

export const candidateVariants: readonly Variant[] = [
  {
    name: "callback-after-revoke",
    title: "Work that a leader has queued goes on after its term was revoked.",
    where: "candidate",
    defencesOff: "the fence",
    breaks: ["I8"],
    flawed: { ...ELECTS, stand: standBlindly },
    control: ELECTS,
  },
];
