import { expect, it } from "vitest";
import { schedule } from "../../../src/schedule/open.js";
import { scheduleTerms } from "../../../src/schedule/options.js";

it("takes nothing for the default but nothing", async () => {
  for (const option of [
    ...["missed", "missedLimit", "late", "overlap", "crashed", "maxTries", "lease"],
    ...["keepFires", "worker", "onError", "signal"],
  ]) {
    expect(() => scheduleTerms({ [option]: null })).toThrow(new RegExp(`^${option} must be`));
    expect(scheduleTerms({ [option]: undefined })).toMatchObject({ missedLimit: 100, maxTries: 3 });
  }
  const inNoZone = { timeZone: null as never };
  const opening = schedule("sqlite:/nowhere/x.db", "n", "* * * * *", () => 1, inNoZone);
  await expect(opening).rejects.toThrow(/^timeZone must be/);
});
