import { must } from "../broken-promise.js";
import type { ConformanceCase } from "../case.js";

/** Notices of a release, for waiters that keep no place in the store. */
export const notifyCases: readonly ConformanceCase[] = [
  {
    id: "notify-wakes",
    title: "once subscribed, a waiter hears of a release by another client",
    applies: ({ manifest }) =>
      manifest.waiting === "notify" ? true : `waiting is "${manifest.waiting}", not "notify"`,
    async run(trial) {
      const [a, b] = await trial.clients();
      const { waiting } = b.backend;
      must(waiting.kind === "notify", 'waiting "notify"', `the backend has "${waiting.kind}"`);
      const grant = await a.take(trial.name());
      let wake = (): void => {};
      const woken = new Promise<void>((resolve) => (wake = resolve));
      const subscription = await waiting.subscribe(trial.name(), () => wake(), b.call());
      await a.free(grant);
      await trial.within(trial.wakeWithinMs, woken, 'waiting "notify"');
      await subscription[Symbol.asyncDispose]();
      await b.take(trial.name());
    },
  },
];
