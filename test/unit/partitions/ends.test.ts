/** How ownerships, joins and groups end where two things happen at once. */
import { describe, expect, it } from "vitest";
import { LeaseLostError } from "../../../src/core/errors.js";
import type { OwnedPartition } from "../../../src/partitions/contract.js";
import { partitions } from "../../../src/partitions/group.js";
import { cut, TTL_MS, World } from "./members.js";

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

describe("a partition that is given up by hand", () => {
  it("tells the work that still goes on, before the store may give it to another", async () => {
    const world = new World();
    const a = await world.join({ count: 1 });
    await world.settled([a], 1);
    const seen: OwnedPartition[] = [];
    const ends: string[] = [];
    const run = a.group.run(async (partition) => {
      seen.push(partition);
      await aborted(partition.revoked);
      ends.push(partition.state);
    });
    await world.sim.settle();
    const [first] = seen;
    const releasing = first!.release();
    expect(first!.signal.aborted).toBe(true);
    expect(first!.signal.reason).toBeInstanceOf(LeaseLostError);
    expect(first!.signal.reason).toMatchObject({ reason: "released" });
    expect(first!.revoked.reason).toBe(first!.signal.reason);
    await world.sim.until(releasing);
    await world.until("worked on anew", () => seen.length === 2);
    expect(ends).toEqual(["released"]);
    expect(seen[1]!.token > first!.token).toBe(true);
    expect(a.errors).toEqual([]);
    await world.sim.until(Promise.all([a.group.close(), run]));
  });

  it("is worked on again although its work had returned", async () => {
    const world = new World();
    const a = await world.join({ count: 1, drain: Infinity });
    await world.settled([a], 1);
    const seen: OwnedPartition[] = [];
    const run = a.group.run((partition) => void seen.push(partition));
    await world.sim.advance(2 * TTL_MS);
    expect(seen).toHaveLength(1);
    await world.sim.until(seen[0]!.release());
    await world.until("worked on anew", () => seen.length === 2);
    // Nor does the end wait for it.
    await world.sim.until(Promise.all([a.group.close(), run]), 1_000);
  });

  it("tells what its work threw for that reason to nobody", async () => {
    const world = new World();
    const a = await world.join({ count: 1 });
    await world.settled([a], 1);
    const run = a.group.run(async ({ signal }) => {
      await aborted(signal);
      signal.throwIfAborted();
    });
    await world.sim.settle();
    await world.sim.until(a.group.owned[0]!.release());
    await world.sim.settle();
    expect(a.errors).toEqual([]);
    expect(a.group.signal.aborted).toBe(false);
    await world.sim.until(Promise.all([a.group.close(), run]));
  });
});

describe("a revoked partition whose lease is lost while it drains", () => {
  it("is lost once, and neither overdue nor given up later", async () => {
    const world = new World();
    const a = await world.join({ count: 2, drain: 5 * TTL_MS });
    await world.settled([a], 2);
    const states: string[] = [];
    const run = a.group.run(async (partition) => {
      await aborted(partition.revoked);
      await aborted(partition.signal);
      states.push(partition.state);
    });
    run.catch(() => undefined);
    const b = await world.join({ count: 2 });
    await world.until("revoked", () => a.changes.some(({ type }) => type === "revoked"));
    const { partition } = a.changes.find(({ type }) => type === "revoked")!;
    const why = partition.revoked.reason as unknown;
    cut(a);
    await world.until("lost", () => partition.state === "lost");
    await world.settled([b], 2);
    await world.sim.advance(10 * TTL_MS);
    expect(states).toEqual(["lost", "lost"]);
    expect(partition.revoked.reason).toBe(why);
    expect(partition.signal.reason).toMatchObject({ name: "LeaseLostError", reason: "deadline" });
    const mine = a.changes.filter((change) => change.partition === partition);
    expect(mine.map(({ type }) => type)).toEqual(["assigned", "revoked", "lost"]);
    const next = b.group.owned.find((one) => one.partition === partition.partition)!;
    expect(next.token > partition.token).toBe(true);
  });
});

describe("a group", () => {
  it("that nobody got, since joining was given up, leaves no member behind", async () => {
    const world = new World();
    const giveUp = new AbortController();
    let lists = 0;
    world.onList = () => {
      if (++lists === 2) world.sim.block(2 * TTL_MS);
    };
    const { tenure, way } = await world.process();
    // It has become a member, and finds that it was frozen, in the moment in which it is given up.
    way.faults.plan = ({ operation }) => {
      if (operation === "release") giveUp.abort(new Error("enough"));
      return undefined;
    };
    const joining = partitions(tenure, "orders", { count: 4, ttl: TTL_MS, signal: giveUp.signal });
    await expect(world.sim.until(joining)).rejects.toThrow("enough");
    world.onList = () => undefined;
    expect((await world.view()).members).toEqual([]);
    await world.sim.until(tenure.close());
    expect(world.sim.pendingTimers()).toBe(0);
  });

  it("closes once, however often it is asked, also from its own work and its listener", async () => {
    const world = new World();
    const closes: Promise<void>[] = [];
    const member = await world.join({
      count: 4,
      onChange: ({ type }) => {
        if (type === "revoked") closes.push(member.group.close());
      },
    });
    await world.settled([member], 4);
    const run = member.group.run(async ({ partition, revoked }) => {
      if (partition === 0) closes.push(member.group.close());
      await aborted(revoked);
    });
    await world.sim.until(run);
    await world.sim.until(Promise.all([...closes, member.group.close()]));
    expect(closes).toHaveLength(5);
    expect(new Set(closes).size).toBe(1);
    expect((await world.view()).partitions).toEqual([]);
  });

  it("that closes while it takes its share keeps nothing", async () => {
    const world = new World();
    let closing: Promise<void> | undefined;
    const member = await world.join({
      count: 40,
      onChange: ({ type }) => {
        if (type === "assigned") closing ??= member.group.close();
      },
    });
    await world.until("closing", () => closing !== undefined);
    await world.sim.until(closing!);
    const taken = member.changes.filter(({ type }) => type === "assigned").length;
    expect(taken).toBeLessThan(40);
    expect(member.group.owned).toEqual([]);
    expect(await world.view()).toMatchObject({ members: [], partitions: [] });
  });

  it("leaves nothing at its tenure once it has ended", async () => {
    const world = new World();
    const { tenure } = await world.process();
    const listening: unknown[] = [];
    const { closing } = tenure;
    const add = closing.addEventListener.bind(closing);
    const remove = closing.removeEventListener.bind(closing);
    closing.addEventListener = (...args: Parameters<typeof add>) => {
      listening.push(args[1]);
      add(...args);
    };
    closing.removeEventListener = (...args: Parameters<typeof remove>) => {
      listening.splice(listening.indexOf(args[1]), 1);
      remove(...args);
    };
    const group = await world.sim.until(partitions(tenure, "orders", { count: 2, ttl: TTL_MS }));
    expect(listening).toHaveLength(1);
    await world.sim.until(group.close());
    expect(listening).toEqual([]);
    await world.sim.until(tenure.close());
    expect(world.sim.pendingTimers()).toBe(0);
  });

  it("ends with what its onError throws", async () => {
    const world = new World();
    const broken = new Error("broken listener");
    const member = await world.join({
      count: 1,
      onChange: () => {
        throw new Error("told");
      },
      onError: () => {
        throw broken;
      },
    });
    await world.until("ended", () => member.group.signal.aborted);
    expect(member.group.signal.reason).toBe(broken);
    await world.sim.until(member.group.close());
    await world.sim.until(member.tenure.close());
  });
});
