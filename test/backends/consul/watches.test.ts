import { setImmediate as turn } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import type { Client, Entry } from "../../../src/backends/consul/client.js";
import { Keys } from "../../../src/backends/consul/keys.js";
import { Watches } from "../../../src/backends/consul/watches.js";
import type { Clock, Timers } from "../../../src/core/clock.js";

const call = { signal: new AbortController().signal, timeoutMs: 5_000 };
/** Far more than any waiter asks in one turn. */
const TOO_MANY = 100;

describe("listening for a release from Consul", () => {
  /** An agent that holds each query for so long, and timers that ring when told to. */
  function impatient(index: bigint, holdsMs = 0) {
    let [asked, nowMs, session] = [0, 0, "holder's" as string | undefined];
    const due: { readonly delayMs: number; readonly run: () => void }[] = [];
    const timers = {
      after: (delayMs: number, run: () => void) => {
        due.push({ delayMs, run });
        return { cancel: () => undefined };
      },
    } as unknown as Timers;
    const clock = { monotonicMs: () => nowMs } as Clock;
    const client = {
      watch: async () => {
        asked += 1;
        nowMs += holdsMs;
        if (asked > TOO_MANY) throw new Error("asked again and again");
        const entry: Entry = { key: "k", value: new Uint8Array(), session, index: 7n };
        return { entry, index };
      },
    } as unknown as Client;
    return {
      watches: new Watches(client, new Keys("tenure"), { clock, timers }),
      asked: () => asked,
      due,
      release: () => void (session = undefined),
    };
  }

  it.each([
    { title: "answers without an index", index: 0n },
    { title: "answers for no reason", index: 9n },
  ])("pauses where the agent $title, and hears of the release after it", async ({ index }) => {
    const { watches, asked, due, release } = impatient(index);
    let woken = 0;
    const watch = await watches.subscribe("name", () => void (woken += 1), call);
    for (let i = 0; i < TOO_MANY; i++) await turn();
    expect(asked()).toBeLessThan(10);
    expect(due.map(({ delayMs }) => delayMs)).toEqual([1_000]);
    expect(woken).toBe(0);
    release();
    due[0]!.run();
    for (let i = 0; i < 10; i++) await turn();
    expect(woken).toBe(1);
    await watch[Symbol.asyncDispose]();
  });

  it("goes on at once where the agent has held each query, and the name is quiet", async () => {
    const { watches, asked, due } = impatient(9n, 50_000);
    await watches.subscribe("name", () => undefined, call);
    for (let i = 0; due.length === 0 && i < TOO_MANY; i++) await turn();
    // The first pause is the one after the agent has failed.
    expect(asked()).toBe(TOO_MANY + 1);
    watches.close();
  });
});
