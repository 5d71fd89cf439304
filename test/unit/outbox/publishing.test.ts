import { expect, it } from "vitest";
import { Mishaps } from "../../../src/core/mishaps.js";
import { toToken } from "../../../src/core/token.js";
import type { Outcome, WaitingMessage } from "../../../src/outbox/messages.js";
import { relayTerms } from "../../../src/outbox/options.js";
import { Publishing } from "../../../src/outbox/publishing.js";
import { platform } from "../../../src/platform/index.js";

it("does not count against a message that the relay's claim was lost meanwhile", async () => {
  const told: unknown[] = [];
  const lost = new AbortController();
  const publishing = new Publishing({
    runtime: platform(),
    publish: () => new Promise(() => undefined),
    terms: relayTerms({ maxTries: 1 }),
    mishaps: new Mishaps((error) => told.push(error)),
    lease: { token: toToken(1n), signal: lost.signal },
    stop: new AbortController().signal,
    onFree: () => undefined,
  });
  const more = { topic: "t", payload: "1", tries: 0, writtenMs: 0 };
  const messages: WaitingMessage[] = [{ seq: 1n, id: "i", key: "k", ...more }];
  publishing.begin(messages);
  expect(publishing.busyKeys).toEqual(["k"]);
  const reason = new Error("lost");
  lost.abort(reason);
  await publishing.ended();
  expect(told).toEqual([reason]);
  const outcomes: Outcome[] = [];
  await publishing.record(async (outcome) => void outcomes.push(outcome));
  expect(outcomes).toEqual([]);
});
