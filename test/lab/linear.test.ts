import { describe, expect, test } from "vitest";
import { checkLinear } from "../../src/lab/checkers/linear.js";
import type { Fact, HistoryEvent } from "../../src/lab/history.js";

type Asked = Extract<Fact, { kind: "asked" }>;
type Answered = Extract<Fact, { kind: "answered" }>;

/** Operations on one register, each fact a millisecond after the last. */
class Story {
  readonly events: HistoryEvent[] = [];
  #ids = 0;

  /** Token, arm and n as in `34/1/0`; the holder goes with the token. */
  ask(client: string, op: Asked["op"], numbers: string, value?: number): number {
    const [token = "", arm, n] = numbers.split("/");
    const id = ++this.#ids;
    const holder = `h${token}`;
    const mark = { token, holder, arm: Number(arm), n: Number(n) };
    const leaves = value === undefined ? {} : { value };
    this.#add({ kind: "asked", resource: "r", client, id, op, ...mark, ...leaves });
    return id;
  }

  answer(id: number, outcome: Answered["outcome"], value?: number): this {
    const saw = value === undefined ? {} : { value };
    this.#add({ kind: "answered", resource: "r", client: "?", id, outcome, ...saw });
    return this;
  }

  /** Asked and answered, with nothing between. */
  did(client: string, op: Asked["op"], numbers: string, value?: number): this {
    const written = op === "write" ? value : undefined;
    const id = this.ask(client, op, numbers, written);
    return this.answer(id, "accepted", op === "read" ? value : undefined);
  }

  verdict(mostStates?: number): string {
    return checkLinear(this.events, mostStates).map(({ verdict }) => verdict).join();
  }

  #add(fact: Fact): void {
    this.events.push({ atMs: this.events.length, ...fact });
  }
}

function armed(): Story {
  return new Story().did("A", "arm", "33/1/0").did("A", "write", "33/1/1", 5);
}

describe("a fenced register, from outside", () => {
  test("explains what its rules allow", () => {
    const story = armed().did("B", "arm", "34/1/0").did("B", "read", "34/1/0", 5);
    expect(story.did("B", "write", "34/1/1", 6).verdict()).toBe("ok");
    const stale = story.ask("A", "write", "33/1/2", 7);
    expect(story.answer(stale, "refused").verdict()).toBe("ok");
  });

  test.each<[string, (story: Story) => Story]>([
    ["a read of what was overwritten", (story) => story.did("A", "read", "33/1/1", 4)],
    ["a stale write", (story) => story.did("B", "arm", "34/1/0").did("A", "write", "33/1/2", 7)],
    ["a write number twice", (story) => story.did("A", "write", "33/1/1", 7)],
    ["an arming twice", (story) => story.did("A", "arm", "33/1/0")],
    ["an unarmed write", (story) => story.did("B", "write", "34/1/1", 7)],
    [
      "a refusal of the newest",
      (story) => story.answer(story.ask("A", "write", "33/1/2", 7), "refused"),
    ],
  ])("explains no %s", (_, more) => {
    expect(more(armed()).verdict()).toBe("violation");
  });

  test("takes what overlaps in either order", () => {
    const story = armed();
    const arming = story.ask("B", "arm", "34/1/0");
    const write = story.ask("A", "write", "33/1/2", 6);
    story.answer(arming, "accepted").answer(write, "accepted");
    expect(story.did("B", "read", "34/1/0", 6).verdict()).toBe("ok");
    expect(story.did("B", "read", "34/1/0", 5).verdict()).toBe("violation");
  });

  test.each([5, 6])("takes a write of unknown outcome as done or not: %i", (seen) => {
    const story = armed();
    story.answer(story.ask("A", "write", "33/1/2", 6), "unknown");
    expect(story.did("A", "read", "33/1/1", seen).verdict()).toBe("ok");
  });

  test("lets a write of unknown outcome land late, and not after the mark has passed", () => {
    const story = armed();
    story.ask("A", "write", "33/1/2", 6);
    story.did("A", "read", "33/1/1", 5).did("B", "arm", "34/1/0");
    expect(story.did("B", "read", "34/1/0", 6).verdict()).toBe("ok");
    const over = armed();
    over.ask("A", "write", "33/1/2", 6);
    over.did("B", "arm", "34/1/0").did("B", "read", "34/1/0", 5);
    expect(over.did("B", "read", "34/1/0", 6).verdict()).toBe("violation");
  });

  test("says that it gave up, which is no pass", () => {
    expect(armed().verdict(1)).toBe("unknown");
  });
});
