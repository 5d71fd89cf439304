import { expect, it } from "vitest";
import { relayTerms } from "../../../src/outbox/options.js";

it("takes nothing for the default but nothing", () => {
  for (const option of [
    ...["batch", "concurrency", "pollEvery", "lease", "publishTimeout", "maxTries"],
    ...["keepPublished", "onError", "signal"],
  ]) {
    expect(() => relayTerms({ [option]: null })).toThrow(new RegExp(`^${option} must be`));
    expect(relayTerms({ [option]: undefined })).toMatchObject({ batch: 100, concurrency: 10 });
  }
});
