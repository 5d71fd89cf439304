import { describe, expect, it } from "vitest";
import { changes, leaderOf } from "../../../src/election/observation.js";
import type { Leader } from "../../../src/election/observation.js";
import type { Leadership } from "../../../src/election/term.js";
import { seededRandom } from "../core/seeded.js";
import { aborted, cut, heal, race, stores, terms, until } from "./candidates.js";
import type { Candidate, Race } from "./candidates.js";

/** What one observer was told. */
type Told = (bigint | null)[];

function observing(
  candidate: Candidate,
  signal: AbortSignal,
): { told: Told; ended: Promise<void> } {
  const told: Told = [];
  const ended = (async () => {
    for await (const leader of candidate.election.observe({ signal })) {
      told.push(leader?.term ?? null);
    }
  })();
  return { told, ended };
}

/** Terms only grow, and nothing comes twice in a row. */
function expectInOrder(told: Told): void {
  let newest = 0n;
  for (const [i, term] of told.entries()) {
    expect(term, `change ${i}`).not.toBe(told[i - 1]);
    if (term === null) continue;
    expect(term >= newest, `change ${i}`).toBe(true);
    newest = term;
  }
}

/** Elected and revoked alternate for each candidate, and each term has one leader (I8). */
function expectAlternating({ sim }: Race, led: ReadonlyMap<number, readonly string[]>): void {
  for (const [who, steps] of led) {
    for (const [i, step] of steps.entries()) {
      const [what, term] = step.split(" ");
      expect(what, `step ${i} of ${who}`).toBe(i % 2 === 0 ? "elected" : "revoked");
      if (i % 2 === 1) expect(term).toBe(steps[i - 1]!.split(" ")[1]);
    }
  }
  const elected = sim.events.flatMap((e) => (e.type === "elected" ? [e.term] : []));
  for (let i = 1; i < elected.length; i++) expect(elected[i]! > elected[i - 1]!).toBe(true);
}

/** All stand; each notes its terms and stops when told. */
function standing(
  { candidates }: Race,
  signal: AbortSignal,
  started: (who: number, term: Leadership) => void,
): { led: Map<number, string[]>; all: Promise<unknown>[] } {
  const led = new Map<number, string[]>(candidates.map((_, i) => [i, []]));
  const all = candidates.map(({ election }, i) =>
    election.lead(
      async (term) => {
        led.get(i)!.push(`elected ${term.term}`);
        started(i, term);
        await aborted(term.signal);
        led.get(i)!.push(`revoked ${term.term}`);
      },
      { signal },
    ),
  );
  for (const one of all) one.catch(() => undefined);
  return { led, all };
}

describe.each(Object.keys(stores))("on a store that %s", (kind) => {
  it("200 forced changes have one leader per term, and growing terms", async () => {
    const running = await race(kind, 5);
    const { sim, candidates } = running;
    const random = seededRandom(11);
    const stop = new AbortController();
    let leading: { who: number; term: Leadership } | undefined;
    const overlaps: string[] = [];
    const { led, all } = standing(running, stop.signal, (who, term) => {
      // Whoever led before believes so no longer, by its own clock.
      if (leading !== undefined && !leading.term.signal.aborted) overlaps.push(String(term.term));
      leading = { who, term };
    });
    let last: Leadership | undefined;
    for (let change = 0; change < 200; change++) {
      await until(sim, `change ${change}`, () => leading !== undefined && leading.term !== last);
      const { who, term } = leading!;
      last = term;
      const how = Math.floor(random() * 4);
      if (how === 0) cut(candidates[who]!);
      else if (how === 1) sim.suspend(2_000);
      else if (how === 2) await sim.until(term.resign());
      else {
        const other = candidates[(who + 1) % 5]!.tenure;
        await sim.until(other.break("lead", { token: term.term, reason: "test" }));
      }
      await until(sim, `end of ${change}`, () => term.signal.aborted);
      heal(candidates[who]!);
    }
    stop.abort(new Error("enough"));
    await sim.until(Promise.allSettled(all));
    // A broken lease is noticed at its next renewal: there two may overlap, and a fence decides.
    const broken = sim.events.flatMap((e) => (e.type === "broken" ? [e.token] : []));
    expect(overlaps.length).toBeLessThanOrEqual(broken.length);
    expectAlternating(running, led);
    expect([...led.values()].flat().length).toBeGreaterThanOrEqual(400);
    for (const [who, steps] of led) expect(steps.length, String(who)).toBeGreaterThan(20);
  });

  it("five leaders and five observers churn, with answers lost (case 43)", async () => {
    const running = await race(kind, 10);
    const { sim, candidates } = running;
    const random = seededRandom(3);
    const stop = new AbortController();
    const leaders = { ...running, candidates: candidates.slice(0, 5) };
    let leading: { who: number; term: Leadership } | undefined;
    const { led, all } = standing(leaders, stop.signal, (who, term) => (leading = { who, term }));
    const observers = candidates.slice(5).map((one) => observing(one, stop.signal));
    for (const one of candidates.slice(5)) {
      one.faults.plan = () => {
        const dice = random();
        if (dice < 0.1) return { kind: "hang", applied: true };
        return dice < 0.2 ? { kind: "lose-reply" } : undefined;
      };
    }
    const gapsMs: number[] = [];
    for (let round = 0; round < 20; round++) {
      await until(sim, "a leader", () => leading?.term.signal.aborted === false);
      const { who, term } = leading!;
      cut(candidates[who]!);
      const cutMs = sim.runtime.clock.monotonicMs();
      await until(sim, "the next", () => leading!.term !== term);
      gapsMs.push(sim.runtime.clock.monotonicMs() - cutMs);
      heal(candidates[who]!);
      await sim.advance(2_000);
    }
    stop.abort(new Error("enough"));
    await sim.until(Promise.allSettled([...all, ...observers.map(({ ended }) => ended)]));
    for (const { told } of observers) {
      expectInOrder(told);
      expect(told.length).toBeGreaterThan(15);
    }
    expectAlternating(leaders, led);
    // The TTL, and the longest pause of a waiter that has to ask.
    expect(Math.max(...gapsMs)).toBeLessThan(2_200);
    for (const [who, steps] of led) expect(steps.length, String(who)).toBeGreaterThanOrEqual(2);
  });

  it("observers equal the store within a second, nobody included (case 43)", async () => {
    const { sim, candidates } = await race(kind, 3);
    const [a, b, c] = candidates;
    const stop = new AbortController();
    const { told, ended } = observing(c!, stop.signal);
    const expected: Told = [null];
    await sim.settle();
    for (const candidate of [a!, b!]) {
      const term = await sim.until(candidate.election.campaign());
      await sim.advance(1_000);
      await term.resign();
      await sim.advance(1_000);
      expected.push(term.term, null);
      expect(told).toEqual(expected);
    }
    // Nobody gives anything back: the store lets the lease run out.
    const term = await sim.until(a!.election.campaign());
    cut(a!);
    await sim.advance(500);
    expect(told.at(-1)).toBe(term.term);
    await sim.advance(1_500);
    expect(told).toEqual([...expected, term.term, null]);
    expect(await sim.until(c!.election.leader())).toBeNull();
    stop.abort();
    await sim.until(ended);
  });
});

describe("observe", () => {
  it("never goes back when the store's answers do", async () => {
    const { sim, candidates } = await race("queues", 2);
    const [a, b] = candidates;
    const first = await sim.until(a!.election.campaign());
    const stale = await a!.tenure.inspect("lead");
    await first.resign();
    const second = await sim.until(a!.election.campaign());
    const lagging = async function* () {
      yield await b!.tenure.inspect("lead");
      yield stale;
      yield await b!.tenure.inspect("lead");
      yield null;
      yield stale;
      yield null;
    };

    const told: (Leader | null)[] = [];
    for await (const leader of changes(lagging())) told.push(leader);
    expect(told.map((leader) => leader?.term ?? null)).toEqual([second.term, null]);
  });

  it("yields who leads with what it told of itself", async () => {
    const { sim, candidates } = await race("queues", 2);
    const [a, b] = candidates;
    const term = await sim.until(a!.election.campaign({ info: { port: 8080 } }));
    const { value } = await b!.election.observe().next();
    expect(value).toEqual({
      term: term.term,
      holder: term.holder,
      info: { host: "simulated", pid: 7, candidate: "c0", port: 8080 },
    });
    expect(terms(sim.events)).toEqual([`elected ${term.term}`]);
  });

  it("takes a lease that is held back by the store for nobody", async () => {
    const { candidates } = await race("queues", 1);
    const [a] = candidates;

    expect(leaderOf(null)).toBeNull();
    expect(
      leaderOf({ name: "lead", holder: undefined, holderInfo: undefined, token: undefined }),
    ).toBeNull();
    expect(() => a!.election.observe({ singal: 1 } as any)).toThrow("singal");
  });
});
