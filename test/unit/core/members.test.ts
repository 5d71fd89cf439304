import { expect, it } from "vitest";
import { Members } from "../../../src/core/members.js";

const some = (count: number) => Array.from({ length: count }, (_, id) => ({ id, place: -1 }));

it("keeps each member once, whatever order they come and go in", () => {
  const members = new Members<{ id: number; place: number }>();
  const all = some(7);
  const kept = new Set<(typeof all)[number]>();
  // Every step is decided by the last one: a walk that meets all places of the list.
  for (let step = 0, at = 1; step < 500; step++, at = (at * 5 + step) % all.length) {
    const member = all[at]!;
    expect(members.has(member)).toBe(kept.has(member));
    if (step % 3 === 2) expect(members.delete(member)).toBe(kept.delete(member));
    else {
      members.add(member);
      kept.add(member);
    }
    expect(new Set(members)).toEqual(kept);
    expect(members.size).toBe(kept.size);
  }
});

it("takes a member that has left another set, and is not misled by its place there", () => {
  const [first, second] = [new Members(), new Members()];
  const [a, b] = [{ place: -1 }, { place: -1 }];
  first.add(a);
  second.add(b);
  expect(first.has(b)).toBe(false);
  expect(first.delete(b)).toBe(false);
  first.delete(a);
  second.add(a);
  expect([first.has(a), second.has(a), second.size]).toEqual([false, true, 2]);
});

it("goes round those that were members when the round began", () => {
  const members = new Members();
  for (const member of some(4)) members.add(member);
  const met = [];
  for (const member of members) {
    met.push(member);
    members.delete(member);
  }
  expect(met).toHaveLength(4);
  expect(members.size).toBe(0);
});
