import { expect, it } from "vitest";
import { OutcomeUnknownError, UnavailableError } from "../../../src/core/errors.js";
import type { RedisIdempotency } from "../../../src/idempotency/contract.js";
import { redisIdempotency } from "../../../src/idempotency/redis.js";
import { ABANDON, BEGIN, FINISH } from "../../../src/idempotency/redis-scripts.js";
import { platform } from "../../../src/platform/index.js";

const lost = new OutcomeUnknownError("the reply was lost");

/** A server whose reply to one script is lost. */
function losing(script: string): { keys: RedisIdempotency; asked: string[] } {
  const asked: string[] = [];
  const keys = redisIdempotency({
    ...{ runtime: platform(), prefix: "", timeoutMs: 1_000, maxBytes: 1_000 },
    digest: (text) => text,
    commands: {
      evaluate: async (one) => {
        asked.push(one);
        if (one === script) throw lost;
        return one === BEGIN ? ["ours"] : 1;
      },
    },
    explain: (error) => error as OutcomeUnknownError,
    close: () => undefined,
  });
  return { keys, asked };
}

it("does not run the work when it does not know whether the key is its own, and frees it", async () => {
  const { keys, asked } = losing(BEGIN);
  let runs = 0;
  const attempt = keys.once("k", {}, () => runs++);
  await expect(attempt).rejects.toBeInstanceOf(UnavailableError);
  expect(runs).toBe(0);
  expect(asked).toEqual([BEGIN, ABANDON]);
});

it("tells that the result may be recorded when that reply is lost", async () => {
  const { keys } = losing(FINISH);
  await expect(keys.once("k", {}, () => 1)).rejects.toBe(lost);
});

it("tells what the work failed with, also when the key could not be freed", async () => {
  const { keys, asked } = losing(ABANDON);
  const boom = new Error("boom");
  await expect(keys.once("k", {}, () => Promise.reject(boom))).rejects.toBe(boom);
  expect(asked).toEqual([BEGIN, ABANDON]);
});
