import { beforeAll, describe, expect, test } from "vitest";
import type { HistoryEvent } from "../../src/lab/history.js";
import { html } from "../../src/lab/report/html.js";
import { mermaid } from "../../src/lab/report/mermaid.js";
import { nameTokens } from "../../src/lab/report/names.js";
import { readHistory } from "../../src/lab/report/recorded.js";
import { reportedOf, type Reported } from "../../src/lab/report/reported.js";
import { quietScale } from "../../src/lab/report/scale.js";
import { storyOf } from "../../src/lab/report/story.js";
import { timeline } from "../../src/lab/report/timeline.js";
import type { FenceMode } from "../../src/lab/resource.js";
import { findScenario, play, SCENARIOS } from "../../src/lab/scenarios/play.js";

async function run(name: string, fence: FenceMode, seed = 1): Promise<Reported> {
  return reportedOf(await play(findScenario(name), { seed, fence }));
}

describe("a timeline", () => {
  let lines: string[];
  const lane = (label: string): string => lines.find((line) => line.startsWith(label)) ?? "";

  describe("of a write that was refused", () => {
    beforeAll(async () => {
      lines = timeline(await run("paused-holder", "armed")).split("\n");
    });

    test("has a lane for each truth", () => {
      expect(lane("store ")).toMatch(/\[=+A t=33=+\[B t=34\]/);
      expect(lane(" belief")).toMatch(/\[~+held 33~+!+ stale belief !+\]/);
      expect(lane(" mark")).toMatch(/\^33-+\^34/);
      expect(lane(" value")).toMatch(/v0-+>v1-+$/);
    });

    test("shows the pause and the refusal", () => {
      expect(lane("A ")).toMatch(/#\|+ PAUSE \|+/);
      expect(lines.join("\n")).toContain("A:writeX 33 < 34");
      expect(lane("verdict")).toMatch(/store OK .* stale refused 1 \| lost updates 0/);
    });

    test("says how to play it again", () => {
      expect(lane("replay")).toContain("tenure lab run paused-holder --fence armed --seed 1");
    });
  });

  test("of a lost update tells whose it was", async () => {
    const text = timeline(await run("first-write-hole", "naive"));
    expect(text).toMatch(/A \(token 33\) wrote v1 after B had read v0; .* A's acknowledged update/);
    expect(text).toContain("v1 LOST");
  });

  test("of the end alone begins where it is told, and still knows all", async () => {
    const whole = await run("paused-holder", "none");
    const text = timeline({ ...whole, lastMs: 12_000 });
    expect(text).toMatch(/^ +10.000s|^ +1\ds/m);
    expect(text).not.toMatch(/A:read/);
    expect(text).toContain("v2 v1 LOST");
    expect(text).toContain("B's acknowledged update is lost");
    expect(text).toMatch(/^A +\|+/m);
    const page = html([{ ...whole, lastMs: 12_000 }]);
    expect(page).not.toMatch(/NaN|A reads account/);
    expect(page).toContain("A writes account");
  });

  test("says once what was true many times", () => {
    const refused = (atMs: number): HistoryEvent => ({
      ...{ atMs, kind: "write", resource: "r", client: "A", scope: "s", token: "1", holder: "a" },
      ...{ arm: 0, n: 0, accepted: false, why: "1 < 2" },
    });
    const events = [refused(1), refused(2), refused(3)];
    const text = timeline({ scenario: "thrice", events, violations: [] });
    expect(text.match(/A's write with token 1 was refused: 1 < 2\. \(3 times\)/g)).toHaveLength(1);
  });

  test("keeps to the width that it is given", async () => {
    const [picture] = timeline(await run("late-packet", "armed"), { width: 80 }).split("verdict");
    const widths = picture!.split("\n").slice(2).map((line) => line.length);
    expect(Math.max(...widths)).toBe(80);
  });
});

/** All but the one that plays for an hour: what it has to draw is not of another kind. */
const DRAWN = SCENARIOS.map(({ name }) => name).filter((name) => name !== "leader-churn");

test.each(DRAWN)("%s can be drawn in every way, written down and read again", async (name) => {
  const result = await play(findScenario(name), { seed: 1, fence: "armed" });
  const reported = reportedOf(result);
  const { events, bad } = readHistory(result.sim.world.history.toJsonLines());
  expect(bad).toEqual([]);
  expect(events).toEqual(reported.events);
  expect(timeline(reported)).toContain(`tenure lab run ${name} --fence armed --seed 1`);
  expect(mermaid(reported).split("\n")[0]).toBe("sequenceDiagram");
  const [drawn] = html([reported]).split("<script>");
  const wrong = /NaN|undefined|https?:(?!\/\/www\.w3\.org\/2000\/svg)/g;
  expect(drawn!.match(wrong) ?? []).toEqual([]);
  // Those of the legend are the first. Models of elections have no store that grants.
  expect(drawn!.match(/class="(grant|belief)"/g)!.length).toBeGreaterThan(2);
});

test("a Mermaid diagram has an arrow for the late write, and leaves vain polls out", async () => {
  const text = mermaid(await run("late-packet", "none"));
  expect(text).toMatch(/participant p\d+ as resource/);
  expect(text.match(/->>p\d: [\d.]+s write$/gm)).toHaveLength(2);
  expect(text.match(/: [\d.]+s acquire$/gm)).toHaveLength(2);
});

describe("what comes from outside", () => {
  const hostile: readonly HistoryEvent[] = [
    {
      atMs: 1,
      kind: "grant",
      key: "<img src=x onerror=alert(1)>",
      client: '"><script>alert(2)</script>',
      token: "1",
      holder: "h",
      ttlMs: 1_000,
    },
    { atMs: 2, kind: "note", text: "</style><script>alert(3)</script>" },
  ];

  test("is text in the page, never markup", () => {
    const page = html([{ scenario: "<b>", events: hostile, violations: [] }]);
    expect(page.match(/<script>/g)).toHaveLength(1);
    expect(page).not.toContain("<img");
    expect(page).not.toContain("<b>");
  });
});

test("an empty history is drawn as one", () => {
  const empty = { scenario: "nothing", events: [], violations: [] };
  expect(timeline(empty)).toContain("lost updates 0");
  expect(html([empty])).toContain("<svg");
});

test("long tokens are given short names in their order, equal ones the same", () => {
  const note = (token: string): HistoryEvent => ({
    ...{ atMs: 0, kind: "believes", key: "k", client: "A" },
    token,
  });
  const names = nameTokens(["1700000000000009", "1700000000000010", "1700000000000009"].map(note));
  expect(names("1700000000000009")).toBe("33");
  expect(names("1700000000000010")).toBe("34");
  expect(nameTokens([note("9"), note("10")])("10")).toBe("10");
});

test("a scale keeps the order of moments, and gives short times more than their share", () => {
  const x = quietScale([0, 5, 10_000], 0, 10_000, 0, 1_000);
  const places = [0, 1, 5, 500, 9_999, 10_000].map(x);
  expect(places).toEqual([...places].sort((a, b) => a - b));
  expect(x(5) - x(0)).toBeGreaterThan(50);
  expect(x(10_000)).toBe(1_000);
});

test("an overlap of beliefs is none where the clients are the same", async () => {
  const story = storyOf(await run("many-writes", "armed"));
  expect(story.overlaps).toEqual([]);
  expect(story.clashes).toEqual([]);
});
