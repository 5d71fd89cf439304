/** How many jobs a worker asks for at once. */
import { expect, it } from "vitest";
import { UnavailableError } from "../../src/core/errors.js";
import { platform } from "../../src/platform/index.js";
import { workOff, type Taken } from "../../src/queue/worker.js";
import { until } from "./until.js";

type Answer = (taken: Taken<any> | Error) => void;

/** A worker whose takes wait for their answers, and whose jobs run until they are told to end. */
function worker(concurrency: number) {
  const stop = new AbortController();
  const asked: Answer[] = [];
  const running: (() => void)[] = [];
  const errors: unknown[] = [];
  const work = workOff<any>({
    runtime: platform(),
    take: () =>
      new Promise((resolve, reject) => {
        asked.push((taken) => (taken instanceof Error ? reject(taken) : resolve(taken)));
      }),
    handler: () => new Promise<void>((resolve) => running.push(resolve)),
    terms: {
      ...{ worker: "w", leaseMs: 1_000, concurrency, signal: stop.signal, pollMs: 10 },
      onError: (error: unknown) => errors.push(error),
    },
    about: { name: "jobs", backend: "sqlite" },
    closing: new AbortController().signal,
  });
  work.catch(() => undefined);
  const nothing = (): undefined => undefined;
  const job: any = { keep: nothing, settle: nothing, giveBack: nothing, end: nothing };
  return {
    work,
    running,
    errors,
    /** The takes that are under way, once they are so many. */
    asks: async (count: number) => {
      await until(() => asked.length >= count);
      expect(asked).toHaveLength(count);
      return asked.splice(0);
    },
    found: { job, inMs: null },
    none: { job: null, inMs: 1 },
    end: async () => {
      stop.abort();
      for (const answer of asked) answer({ job: null, inMs: null });
      for (const finish of running) finish();
      await work;
    },
  };
}

it("doubles while each take finds a job, up to what may run, and begins anew with one", async () => {
  const { asks, found, none, running, end } = worker(8);
  for (const count of [1, 2, 4]) for (const answer of await asks(count)) answer(found);
  // Seven run: there is room for one more.
  for (const answer of await asks(1)) answer(found);
  await until(() => running.length === 8);
  for (const finish of running.splice(0)) finish();
  const eight = await asks(8);
  eight.forEach((answer, n) => answer(n < 3 ? found : none));
  for (const answer of await asks(1)) answer(none);
  for (const answer of await asks(1)) answer(found);
  await asks(2).then(([first, second]) => {
    first!(found);
    second!(none);
  });
  await asks(1).then(([only]) => only!(none));
  await end();
});

it("runs what was found, whatever becomes of the other takes", async () => {
  const { work, asks, found, running, end } = worker(4);
  for (const answer of await asks(1)) answer(found);
  const [first, second] = await asks(2);
  first!(new UnavailableError("hopeless", { retryable: false }));
  second!(found);
  await until(() => running.length === 2);
  for (const finish of running.splice(0)) finish();
  await expect(work).rejects.toThrow("hopeless");
  await end().catch(() => undefined);
});
