import { describe, expect, it } from "vitest";
import { Agenda } from "../../../src/core/agenda.js";
import { seededRandom } from "./seeded.js";

describe("agenda", () => {
  it("has the entry due first, through any sequence of set and delete", () => {
    const uniform = seededRandom(11);
    const entries = Array.from({ length: 40 }, () => ({ dueMs: 0, slot: -1 }));
    const agenda = new Agenda<(typeof entries)[number]>();
    const on = new Set<(typeof entries)[number]>();
    for (let i = 0; i < 5000; i++) {
      const entry = entries[Math.floor(uniform() * entries.length)]!;
      if (uniform() < 0.4) {
        agenda.delete(entry);
        on.delete(entry);
      } else {
        agenda.set(entry, Math.floor(uniform() * 100));
        on.add(entry);
      }
      expect(agenda.size).toBe(on.size);
      const least = Math.min(...[...on].map(({ dueMs }) => dueMs));
      expect(agenda.first()?.dueMs ?? Infinity).toBe(least);
    }
  });
});
