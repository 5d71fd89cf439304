import { describe, expect, it } from "vitest";
import { murmur2, partitionOf } from "../../../src/partitions/key-hash.js";
import { ELSEWHERE, partOf } from "../../../src/partitions/plan.js";
import { seededRandom } from "../core/seeded.js";

/** The owners after all have done their part, at once. */
function next(count: number, members: readonly string[], owners: ReadonlyMap<number, string>) {
  const seen = { count, members, owners };
  const result = new Map([...owners].filter(([, id]) => members.includes(id)));
  const parts = members.map((id) => [id, partOf(id, seen)] as const);
  for (const [, { revoke }] of parts) for (const partition of revoke) result.delete(partition);
  return { result, parts };
}

function settle(count: number, members: readonly string[], owners: ReadonlyMap<number, string>) {
  let now = owners;
  for (let round = 0; round < 3; round++) {
    const { result, parts } = next(count, members, now);
    for (const [id, { take }] of parts) {
      for (const partition of take) {
        expect(result.has(partition)).toBe(false);
        result.set(partition, id);
      }
    }
    now = result;
  }
  for (const id of members) {
    expect(partOf(id, { count, members, owners: now }).isSettled).toBe(true);
  }
  return now;
}

function shares(members: readonly string[], owners: ReadonlyMap<number, string>): number[] {
  return members.map((id) => [...owners.values()].filter((owner) => owner === id).length);
}

const ids = (count: number): string[] => Array.from({ length: count }, (_, i) => `m${i}`);

describe("the plan", () => {
  it("shares evenly to one, and moves no more than it must", () => {
    const random = seededRandom(3);
    let owners: ReadonlyMap<number, string> = new Map();
    let members = ids(3);
    for (let step = 0; step < 60; step++) {
      const count = 101;
      const before = owners;
      owners = settle(count, members, before);
      const now = shares(members, owners);
      expect(now.reduce((a, b) => a + b)).toBe(count);
      expect(Math.max(...now) - Math.min(...now)).toBeLessThanOrEqual(1);
      // What its owner could have kept: as many as its share allows.
      const kept = [...before].filter(([partition, id]) => owners.get(partition) === id).length;
      const had = shares(members, before).sort((a, b) => b - a);
      const even = Math.floor(count / members.length);
      const rest = count % members.length;
      const most = had.map((own, i) => Math.min(own, even + (i < rest ? 1 : 0)));
      expect(kept).toBe(most.reduce((a, b) => a + b));
      const comes = Math.floor(random() * 4);
      members = members.filter(() => random() < 0.8);
      members.push(...Array.from({ length: comes + 1 }, (_, i) => `s${step}-${i}`));
    }
  });

  it("that is half carried out stays the same for the other half", () => {
    const random = seededRandom(9);
    const members = ids(7);
    const seen = { count: 50, members, owners: new Map<number, string>() };
    const target = new Map<number, string>();
    for (const id of members) for (const one of partOf(id, seen).take) target.set(one, id);
    expect(target.size).toBe(50);
    for (let round = 0; round < 50; round++) {
      const done = new Map([...target].filter(() => random() < random()));
      for (const id of members) {
        const { take, revoke } = partOf(id, { ...seen, owners: done });
        expect(revoke).toEqual([]);
        for (const one of take) expect(target.get(one)).toBe(id);
      }
    }
  });

  it("waits for what is held elsewhere, and takes it for nobody's share", () => {
    const owners = new Map([[0, ELSEWHERE], [1, "gone"], [2, "a"]]);
    const part = partOf("b", { count: 3, members: ["a", "b"], owners });
    expect(part.isSettled).toBe(false);
    expect(part.take).toEqual([]);
    expect(part.revoke).toEqual([]);
  });

  it("leaves members without a partition when there are more of them", () => {
    const owners = settle(3, ids(8), new Map());
    expect(shares(ids(8), owners).sort()).toEqual([0, 0, 0, 0, 0, 1, 1, 1]);
  });
});

describe("partitionFor", () => {
  // The test values of Kafka's own hash: its producers and this agree.
  it.each([
    ["21", -973932308],
    ["foobar", -790332482],
    ["a-little-bit-long-string", -985981536],
    ["a-little-bit-longer-string", -1486304829],
    ["lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971],
    ["abc", 479470107],
  ])("hashes %s as Kafka does", (key, hash) => {
    expect(murmur2(new TextEncoder().encode(key))).toBe(hash);
    expect(partitionOf(key, 64)).toBe((hash & 0x7fffffff) % 64);
  });

  it("takes bytes in the middle of a buffer, and refuses what is neither text nor bytes", () => {
    const whole = new TextEncoder().encode("--foobar");
    expect(partitionOf(whole.subarray(2), 64)).toBe(partitionOf("foobar", 64));
    expect(partitionOf("é", 64)).toBe(partitionOf(Buffer.from("é"), 64));
    expect(() => partitionOf(5 as never, 64)).toThrow("key must be a string or bytes, got 5");
    for (const count of [0, -1, 1.5, Number.NaN, undefined, "8"]) {
      const wrong = count as never;
      expect(() => partitionOf("a", wrong)).toThrow("count must be a whole number from 1, got");
    }
  });

  it("spreads keys over all partitions", () => {
    const counts = new Map<number, number>();
    for (let i = 0; i < 64_000; i++) {
      const partition = partitionOf(`customer-${i}`, 64);
      counts.set(partition, (counts.get(partition) ?? 0) + 1);
    }
    expect(counts.size).toBe(64);
    expect(Math.min(...counts.values())).toBeGreaterThan(800);
  });
});
