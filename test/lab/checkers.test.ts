import { describe, expect, test } from "vitest";
import { checkElections } from "../../src/lab/checkers/election.js";
import { checkLeaks } from "../../src/lab/checkers/leaks.js";
import { checkRefusals } from "../../src/lab/checkers/register.js";
import { checkRepeat } from "../../src/lab/checkers/repeat.js";
import type { Violation } from "../../src/lab/checkers/violation.js";
import { checkWaiting } from "../../src/lab/checkers/waiting.js";
import type { Fact, HistoryEvent } from "../../src/lab/history.js";

/** Facts a second apart. */
function story(...facts: readonly Fact[]): readonly HistoryEvent[] {
  return facts.map((fact, i) => ({ atMs: i * 1_000, ...fact }));
}

function texts(found: readonly Violation[]): readonly string[] {
  return found.map(({ invariant, text }) => `${invariant}: ${text}`);
}

function term(kind: "elected" | "led" | "revoked", client: string, number: number): Fact {
  return { kind, key: "leader", client, term: String(number) };
}

function saw(client: string, number?: number): Fact {
  const shown = number === undefined ? {} : { term: String(number) };
  return { kind: "observed", key: "leader", client, ...shown };
}

describe("elections", () => {
  test.each<[string, readonly Fact[]]>([
    ["A leads, resigns, and B follows", [
      term("elected", "A", 1), term("led", "A", 1), term("revoked", "A", 1), term("elected", "B", 2),
    ]],
    ["A is told late that its term has ended", [
      term("elected", "A", 1), term("elected", "B", 2), term("revoked", "A", 1),
    ]],
    ["an observer misses a term", [saw("O", 1), saw("O"), saw("O", 3)]],
  ])("allow that %s", (_, facts) => {
    expect(checkElections(story(...facts))).toEqual([]);
  });

  test.each<[string, RegExp, readonly Fact[]]>([
    ["two leaders of a term", /in which A led/, [
      term("elected", "A", 1), term("revoked", "A", 1), term("elected", "B", 1),
    ]],
    ["work after the end", /which had ended/, [
      term("elected", "A", 1), term("revoked", "A", 1), term("led", "A", 1),
    ]],
    ["work in a term that another has followed", /after term 2 had begun/, [
      term("elected", "A", 1), term("elected", "B", 2), term("led", "A", 1),
    ]],
    ["a second term before the end of the first", /before its term 1 had ended/, [
      term("elected", "A", 1), term("elected", "A", 2),
    ]],
    ["an end told twice", /told twice/, [
      term("elected", "A", 1), term("revoked", "A", 1), term("revoked", "A", 1),
    ]],
    ["an observer that goes back", /saw 1 of leader after 2/, [saw("O", 2), saw("O", 1)]],
    ["an observer that is told the same again", /saw no leader of leader twice/, [saw("O"), saw("O")]],
  ])("allow no %s", (_, text, facts) => {
    expect(texts(checkElections(story(...facts)))[0]).toMatch(text);
  });
});

const RULES = { ttlMs: 10_000, boundMs: 3_000, watchMs: 0, fair: true };
const line = (kind: "wait" | "left" | "served", holder: string): Fact => ({
  kind, key: "job", client: `client of ${holder}`, holder,
});

describe("waiting", () => {
  test("in a fair store is served in order of arrival, without those who left", () => {
    const first = [line("wait", "a"), line("wait", "b"), line("wait", "c")];
    const fair = story(...first, line("left", "a"), line("served", "b"), line("served", "c"));
    expect(checkWaiting(fair, RULES)).toEqual([]);
    const unfair = story(...first, line("served", "b"));
    expect(texts(checkWaiting(unfair, RULES))).toEqual([
      "I9: client of b was served in job before 1 who had come earlier",
    ]);
    expect(checkWaiting(unfair, { ...RULES, fair: false })).toEqual([]);
  });

  test("for a free name is not in vain, unless the waiter was disturbed", () => {
    const wait: Fact = { kind: "wait", key: "job", client: "A" };
    const time = Array.from({ length: 6 }, (): Fact => ({ kind: "note", text: "time" }));
    const found = checkWaiting(story(wait, ...time), RULES);
    expect(texts(found)).toEqual(["I9: free, and A waited 4000 ms in peace for job"]);
    const cut: Fact = { kind: "fault", what: "cut", target: "A→store" };
    expect(checkWaiting(story(wait, cut, ...time), RULES)).toEqual([]);
  });
});

test("a client that was closed keeps nothing", () => {
  const leak: Fact = { kind: "leak", what: "2 timers", client: "A" };
  expect(texts(checkLeaks(story(leak), RULES))).toEqual(["I10: A was closed and kept 2 timers"]);
});

test("a write that was told to be refused is not there", () => {
  const mark = { token: "1", holder: "a", arm: 1, n: 1 };
  const about = { resource: "r", client: "A" };
  const asked: Fact = { kind: "asked", ...about, id: 1, op: "write", ...mark, value: 7 };
  const acked: Fact = { kind: "acked", ...about, token: "1", base: 0, value: 0, outcome: "refused" };
  const wrote = (accepted: boolean): Fact => ({
    kind: "write", ...about, scope: "s", ...mark, accepted, base: 0, value: 7,
  });
  expect(checkRefusals(story(asked, wrote(false), acked))).toEqual([]);
  expect(texts(checkRefusals(story(asked, wrote(true), acked)))).toEqual([
    "I12: A was told that v7 was refused, and it was written",
  ]);
});

test("two runs of one seed are the same to the last fact", () => {
  const run = story(saw("O", 1), saw("O", 2));
  expect(checkRepeat(5, run, [...run])).toEqual([]);
  expect(texts(checkRepeat(5, run, run.slice(0, 1)))).toEqual([
    "I13: seed 5 gave two runs, which part at fact 1",
  ]);
});
