import { expect, it } from "vitest";
import { checkJob, queueTerms, workTerms } from "../../../src/queue/options.js";

it("takes nothing for the default but nothing", () => {
  for (const option of ["name", "maxTries", "keepDone"]) {
    expect(() => queueTerms({ [option]: null })).toThrow(new RegExp(`^${option} must be`));
  }
  const work = ["worker", "lease", "concurrency", "pollEvery", "onError", "signal"];
  for (const option of work) {
    expect(() => workTerms({ [option]: null }, "me")).toThrow(new RegExp(`^${option} must be`));
    expect(workTerms({ [option]: undefined }, "me")).toEqual({
      ...{ worker: "me", leaseMs: 30_000, concurrency: 1, pollMs: 500 },
      ...{ signal: undefined, onError: undefined },
    });
  }
  const job = { key: "k", payload: 1, delay: null as never };
  expect(() => checkJob(job, "jobs", () => "id")).toThrow(/^delay must be/);
});
