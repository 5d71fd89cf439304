import { must } from "../broken-promise.js";
import { allOf, withPower, type ConformanceCase, type Conditions } from "../case.js";

function whereChecked({ manifest }: Conditions): true | string {
  return manifest.heldCheck ? true : "the manifest says heldCheck: false";
}

/** Whether data in the same store can be written on the condition that the lease is held. */
export const heldCheckCases: readonly ConformanceCase[] = [
  {
    id: "held-check-proof",
    title: "a grant has a proof",
    applies: whereChecked,
    async run(trial) {
      const client = await trial.client();
      const grant = await client.take(trial.name());
      must(client.backend.proof !== undefined, "heldCheck true", "the backend has no proof()");
      const proof = client.backend.proof(grant);
      must(proof !== undefined && proof !== null, "heldCheck true", "the proof is empty");
    },
  },
  {
    id: "held-check-holds",
    title: "the proof holds while the lease does, and never after a release or for another lease",
    applies: allOf(whereChecked, withPower("testProof")),
    async run(trial) {
      const [a, b] = await trial.clients();
      const holds = async (proof: unknown): Promise<boolean | undefined> =>
        trial.store.testProof?.(proof);
      const first = await a.take(trial.name());
      const proof = a.backend.proof?.(first);
      must((await holds(proof)) === true, "heldCheck true", "the proof of a live lease fails");
      await a.renew(first);
      must((await holds(proof)) === true, "heldCheck true", "a renewal breaks the proof");
      await a.free(first);
      must((await holds(proof)) === false, "heldCheck true", "the proof outlives the release");
      const second = await a.take(trial.name(), { ttlMs: trial.shortTtlMs });
      must((await holds(proof)) === false, "heldCheck true", "a proof holds for a newer lease");
      const short = a.backend.proof?.(second);
      await trial.expire(trial.shortTtlMs);
      await b.takeExpired(trial.name());
      must((await holds(short)) === false, "heldCheck true", "the proof outlives a take-over");
    },
  },
  {
    id: "held-check-absent",
    title: "a backend that declares no held check offers no proof",
    applies: ({ manifest }) => (manifest.heldCheck ? "the manifest says heldCheck: true" : true),
    async run(trial) {
      const backend = await trial.connect();
      must(backend.proof === undefined, "heldCheck false", "the backend has a proof()");
    },
  },
];
