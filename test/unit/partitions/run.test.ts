import { describe, expect, it } from "vitest";
import type { OwnedPartition } from "../../../src/partitions/contract.js";
import { LeaseLostError } from "../../../src/core/errors.js";
import { cut, TTL_MS, World, type Member } from "./members.js";

const COUNT = 12;

/** Runs on every partition until it is revoked, and takes `finishMs` to finish then. */
function working(world: World, { group }: Member, finishMs = 0) {
  const begun: number[] = [];
  const busy = new Set<number>();
  const ends: { partition: number; state: string }[] = [];
  const work = async (partition: OwnedPartition): Promise<void> => {
    const number = partition.partition;
    expect(busy.has(number)).toBe(false);
    busy.add(number);
    begun.push(number);
    await aborted(partition.revoked);
    await new Promise<void>((done) => void world.sim.runtime.timers.after(finishMs, done));
    ends.push({ partition: number, state: partition.state });
    busy.delete(number);
  };
  const run = group.run(work);
  run.catch(() => undefined);
  return { begun, busy, ends, run };
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

describe("run", () => {
  it("works on what is owned and what comes, and gives up what has ended", async () => {
    const world = new World();
    const a = await world.join({ count: COUNT });
    await world.settled([a], COUNT);
    const first = working(world, a, 100);
    await world.sim.settle();
    expect(first.busy.size).toBe(COUNT);
    const b = await world.join({ count: COUNT });
    const second = working(world, b);
    await world.settled([a, b], COUNT);
    expect(first.ends.map(({ state }) => state)).toEqual(Array(6).fill("revoked"));
    expect(a.changes.filter(({ type }) => type === "overdue")).toEqual([]);
    await world.until("works", () => second.busy.size === 6);
    const together = [...first.busy, ...second.busy];
    expect(new Set(together).size).toBe(COUNT);
    await world.sim.until(Promise.all([a.group.close(), first.run]));
    expect(first.busy.size).toBe(0);
    await world.settled([b], COUNT);
    await world.sim.until(b.tenure.close());
    await world.sim.until(second.run);
    // Closing the tenure has waited for the works, too.
    expect(second.busy.size).toBe(0);
    expect(second.ends.at(-1)!.state).toBe("revoked");
    expect((await world.view()).partitions).toEqual([]);
  });

  it("tells the work of a lost partition from that of a revoked one", async () => {
    const world = new World();
    const a = await world.join({ count: COUNT });
    await world.settled([a], COUNT);
    const { ends } = working(world, a);
    const [one] = a.group.owned;
    cut(a);
    await world.until("lost", () => ends.length === COUNT);
    expect(ends.map(({ state }) => state)).toEqual(Array(COUNT).fill("lost"));
    expect(one!.signal.reason).toBeInstanceOf(LeaseLostError);
    expect(one!.revoked.reason).toBe(one!.signal.reason);
    expect(() => one!.assertOwned()).toThrow(LeaseLostError);
  });

  it("does not begin again on a partition whose former work goes on", async () => {
    const world = new World();
    const a = await world.join({ count: 1 });
    await world.settled([a], 1);
    const { begun, ends } = working(world, a, 3 * TTL_MS);
    const [one] = a.group.owned;
    await world.sim.settle();
    await a.tenure.break(one!.name, { token: one!.token, reason: "test" });
    await world.until("owned anew", () => a.group.owned[0]?.token !== undefined
      && a.group.owned[0].token > one!.token);
    expect([begun.length, ends.length]).toEqual([1, 0]);
    await world.until("begun anew", () => begun.length === 2);
    expect(ends).toHaveLength(1);
  });

  it("takes a partition away from a work that does not end within the drain", async () => {
    const world = new World();
    const a = await world.join({ count: 2, drain: 200 });
    await world.settled([a], 2);
    let told: OwnedPartition | undefined;
    void a.group.run(async (partition) => {
      await aborted(partition.signal);
      told = partition;
      await new Promise(() => undefined);
    });
    const b = await world.join({ count: 2 });
    await world.settled([a, b], 2);
    expect(told!.signal.reason).toMatchObject({
      code: "TENURE_PARTITION_REVOKED",
      message: expect.stringContaining("not given up within 200 ms"),
    });
    expect(a.changes.slice(-3).map(({ type }) => type)).toEqual(["revoked", "overdue", "released"]);
    // Nor does the end wait for such a work for ever.
    await world.sim.until(a.group.close(), 1_000);
  });

  it("ends, with all other works, when one throws", async () => {
    const world = new World();
    const a = await world.join({ count: COUNT });
    await world.settled([a], COUNT);
    let ended = 0;
    const broken = new Error("broken");
    const run = a.group.run(async ({ partition, revoked }) => {
      if (partition === 3) throw broken;
      await aborted(revoked);
      ended++;
    });
    await expect(world.sim.until(run)).rejects.toBe(broken);
    expect(ended).toBe(COUNT - 1);
    expect(a.group.signal.reason).toBe(broken);
    expect((await world.view()).members).toEqual([]);
  });

  it("leaves a partition idle whose work has returned", async () => {
    const world = new World();
    const a = await world.join({ count: 2 });
    await world.settled([a], 2);
    const stop = new AbortController();
    let calls = 0;
    const run = a.group.run(() => void calls++, { signal: stop.signal });
    await world.sim.advance(5 * TTL_MS);
    expect(calls).toBe(2);
    expect(a.group.owned).toHaveLength(2);
    stop.abort();
    await world.sim.until(run);
    expect((await world.view()).partitions).toEqual([]);
    await world.sim.until(a.tenure.close());
    expect(world.sim.pendingTimers()).toBe(0);
  });

  it("tells an error of a listener, and goes on", async () => {
    const world = new World();
    const errors: unknown[] = [];
    const a = await world.join({
      count: 2,
      onChange: () => {
        throw new Error("listener");
      },
      onError: (error) => void errors.push(error),
    });
    await world.settled([a], 2);
    expect(errors).toHaveLength(2);
    await expect(a.group.run(1 as never)).rejects.toThrow("work must be a function, got 1");
    await expect(a.group.run(() => 1, { singal: 1 } as never)).rejects.toThrow("singal");
    await expect(a.group.run(() => 1, null as never)).rejects.toThrow("options must be an object");
    await expect(a.group.run(() => 1, { signal: 1 } as never)).rejects.toThrow("AbortSignal");
    const run = a.group.run(() => 1);
    await expect(a.group.run(() => 2)).rejects.toThrow("work must be given once");
    await world.sim.until(Promise.all([a.group.close(), run]));
  });
});
