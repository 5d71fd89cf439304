import { describe, expect, it, test } from "vitest";
import { BrokenPromise } from "../../src/testing/broken-promise.js";
import { allCases } from "../../src/testing/cases.js";
import { conformance } from "../../src/testing/conformance.js";
import { memorySubject } from "./memory-subject.js";
import { grantMutants } from "./mutants/grants.js";
import type { Mutant } from "./mutants/mutant.js";
import { recordMutants } from "./mutants/records.js";
import { tenureMutants } from "./mutants/tenures.js";
import { tokenMutants } from "./mutants/tokens.js";
import { waitingMutants } from "./mutants/waiting.js";

const mutants: readonly Mutant[] = [
  ...tokenMutants,
  ...grantMutants,
  ...recordMutants,
  ...waitingMutants,
  ...tenureMutants,
];

describe("a backend that does not keep its promises fails", () => {
  for (const mutant of mutants) {
    it(`${mutant.caught}: ${mutant.title}`, async () => {
      const mend = mutant.arrange?.();
      try {
        const cases = await conformance(memorySubject(mutant));
        const noticing = cases.find(({ id }) => id === mutant.caught);
        expect(noticing?.applies).toBe(true);
        await expect(noticing?.run()).rejects.toBeInstanceOf(BrokenPromise);
      } finally {
        mend?.();
      }
    });
  }
});

test("every case can fail: some mutant is caught by it", () => {
  const caught = new Set(mutants.map((mutant) => mutant.caught));
  const never = allCases.map(({ id }) => id).filter((id) => !caught.has(id));
  expect(never).toEqual([]);
});
