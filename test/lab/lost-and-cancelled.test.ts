import { expect, test } from "vitest";
import { TenureError } from "../../src/core/errors.js";
import { observedStore, sessionStore, singleStore } from "../../src/lab/index.js";
import { Simulation, type MakeStore } from "../../src/lab/simulation.js";

/**
 * A wait in which each message of the waiter is lost in turn, and which is cancelled at each moment
 * at which anything happened to it after that: one run for each pair.
 */

const TTL_MS = 30_000;
/** A call that is not answered is given up after 5 s, and asked again: well before the TTL. */
const CLEAN_MS = 12_000;
const REASON = "cancelled";
/** What is done to a wait: which of its messages is lost, from 1, and when it is cancelled. */
interface Harm {
  readonly lost: number;
  readonly cancelMs: number;
}

interface Came {
  readonly sim: Simulation;
  readonly error: unknown;
  readonly messages: number;
  readonly timers: number;
}

const STORES: Readonly<Record<string, MakeStore>> = {
  "a store that is polled": singleStore({ waiting: "poll" }),
  "a store that tells of releases": singleStore({ waiting: "notify" }),
  "a store with a queue": singleStore({ waiting: "queue" }),
  "a session store": (world) => sessionStore(world),
  "a store that compares no clocks": observedStore,
};

async function wait(store: MakeStore, seed: number, { lost, cancelMs }: Harm): Promise<Came> {
  const sim = new Simulation({ seed, fence: "none", store });
  const { world, network } = sim;
  const [holder, waiter] = [await sim.client("H"), await sim.client("W")];
  let messages = 0;
  network.plan = ({ from, to }) => {
    if (from !== "W" && to !== "W") return undefined;
    return ++messages === lost ? { drop: true } : undefined;
  };
  const controller = new AbortController();
  if (cancelMs !== Infinity) world.at(cancelMs, () => controller.abort(REASON));
  let error: unknown;
  const hold = async (): Promise<void> => {
    const lease = await holder.tenure.acquire("job", { ttl: TTL_MS });
    await world.pass(400 - world.nowMs);
    await lease.release();
  };
  const take = async (): Promise<void> => {
    await world.pass(100);
    try {
      const { signal } = controller;
      const lease = await waiter.tenure.acquire("job", { ttl: TTL_MS, signal });
      await world.pass(500);
      await lease.release();
    } catch (caught) {
      error = caught;
    }
  };
  await world.until(Promise.all([hold(), take()]), 20 * TTL_MS);
  await world.run(world.nowMs + CLEAN_MS);
  return { sim, error, messages, timers: waiter.process.pendingTimers };
}

/** A hair after each message of the waiter was sent, arrived or was lost. */
function momentsOf({ sim }: Came): readonly number[] {
  const own = sim.world.history.of("message").filter(({ from, to }) => from === "W" || to === "W");
  return [...new Set(own.flatMap(({ sentMs, atMs }) => [sentMs + 0.002, atMs + 0.002]))];
}

test.each(Object.entries(STORES))("%s keeps nothing of it", async (_, store) => {
  let runs = 0;
  let cancelled = 0;
  for (const seed of [1, 2]) {
    const { messages } = await wait(store, seed, { lost: 0, cancelMs: Infinity });
    for (let lost = 1; lost <= messages; lost++) {
      const moments = momentsOf(await wait(store, seed, { lost, cancelMs: Infinity }));
      for (const cancelMs of [Infinity, ...moments.slice(0, 40)]) {
        const { sim, error, timers } = await wait(store, seed, { lost, cancelMs });
        const text = `seed ${seed}, message ${lost} lost, cancelled at ${cancelMs} ms`;
        runs++;
        if (error === REASON) cancelled++;
        else if (error !== undefined) expect(error, text).toBeInstanceOf(TenureError);
        expect(timers, text).toBe(0);
        // Whoever was told that a release may have failed can ask again, or leave it to the TTL.
        const isTold = error instanceof TenureError && error.message.includes("release");
        if (!isTold) expect(sim.store.find().model.list(""), text).toEqual([]);
      }
    }
  }
  expect(runs).toBeGreaterThan(200);
  expect(cancelled).toBeGreaterThan(runs / 4);
});
