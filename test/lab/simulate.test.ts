import { expect, test } from "vitest";
import { simulate, type SimulatedFault, type Work } from "../../src/lab/index.js";

/** Reads, thinks, looks at the clock, and writes. */
const section: Work = async ({ lease, resource, sleep, point }) => {
  const base = await resource.read();
  await sleep(1_000);
  lease.assertHeld();
  await point("checked");
  await resource.write(base);
};

const pauseA: readonly SimulatedFault[] = [{ client: "A", at: "checked", pause: "20s" }];

test.each([
  ["none", 1],
  ["naive", 0],
  ["armed", 0],
] as const)("a paused section with the fence %s loses %i updates", async (fence, lost) => {
  const result = await simulate({ fence, faults: pauseA }, section);
  expect(result.lostUpdates).toBe(lost);
  expect(result.grants).toBe(2);
  expect(result.missed).toEqual([]);
  expect(result.unfinished).toBe(0);
  expect(result.violations.map(({ invariant }) => invariant)).toEqual(lost === 0 ? [] : ["I5"]);
  expect(result.timeline()).toContain(`lost updates ${lost}`);
});

test("one seed is one run, another seed another", async () => {
  const hash = async (seed: number): Promise<string> =>
    (await simulate({ seed, clients: 3, turns: 4 }, section)).traceHash;
  expect(await hash(3)).toBe(await hash(3));
  expect(await hash(3)).not.toBe(await hash(4));
});

test("random faults go on until the time is over, and an armed resource loses nothing", async () => {
  const options = { seed: 11, clients: 3, ttl: "2s", faults: "random", for: "5m" } as const;
  const result = await simulate(options, section);
  expect(result.faults).toBeGreaterThan(10);
  expect(result.grants).toBeGreaterThan(20);
  expect(result.violations).toEqual([]);
  const unfenced = await simulate({ ...options, fence: "none" }, section);
  expect(unfenced.lostUpdates).toBeGreaterThan(0);
});

test.each<[string, SimulatedFault, string]>([
  ["a suspend", { client: "A", at: "checked", suspend: "30s" }, "suspend"],
  ["a cut from the store", { client: "A", after: "200ms", cut: "store", for: "30s" }, "cut"],
  ["a kill", { client: "A", at: "checked", kill: true }, "kill"],
  ["a jump of the wall clock", { client: "A", at: "checked", wallClock: 3_600_000 }, "wall-clock"],
])("%s is a fault of the run", async (_, fault, what) => {
  const result = await simulate({ faults: [fault] }, section);
  expect(result.events.filter((e) => e.kind === "fault").map((e) => e.what)).toContain(what);
  expect(result.missed).toEqual([]);
  expect(result.violations).toEqual([]);
  expect(result.unfinished).toBe(what === "kill" ? 1 : 0);
});

test("a write that is held up arrives late, and is refused", async () => {
  const held: SimulatedFault = { client: "A", at: "checked", hold: "write", for: "60s" };
  expect((await simulate({ faults: [held] }, section)).staleRefused).toBe(1);
  expect((await simulate({ faults: [held], fence: "none" }, section)).lostUpdates).toBe(1);
});

test("a section that a lost lease stops is told of, and its successor goes on", async () => {
  const faults = [{ client: "A", at: "granted", cut: "store", for: "1m" }] as const;
  const result = await simulate({ faults }, async ({ resource, signal, sleep }) => {
    const base = await resource.read();
    for (let step = 0; step < 20; step++) {
      signal.throwIfAborted();
      await sleep(1_000);
    }
    await resource.write(base);
  });
  expect(result.errors.join()).toMatch(/^A: LeaseLostError/);
  expect(result.grants).toBe(2);
});

test("an error of the section's own ends the simulation", async () => {
  const failing = simulate({}, async () => {
    throw new RangeError("the section's own");
  });
  await expect(failing).rejects.toThrow("the section's own");
});

test("what never struck is told, and wrong options are refused", async () => {
  const nowhere = { client: "A", at: "nowhere", pause: "1s" } as const;
  expect((await simulate({ faults: [nowhere] }, section)).missed).toEqual([nowhere]);
  const wrong = [
    { faults: [{ client: "Z", after: 0, kill: true }] },
    { ttl: "soon" },
    { clients: 0 },
    { faults: [{ client: "A", after: 0, pause: -1 }] },
  ] as const;
  for (const options of wrong) {
    await expect(simulate(options as object, section)).rejects.toThrow(/clients?|ttl|pause/);
  }
});

test("runs can be shown one below the other", async () => {
  const [one, other] = [
    await simulate({ faults: pauseA, fence: "none" }, section),
    await simulate({ faults: pauseA }, section),
  ];
  const page = one.html(other);
  expect(page.match(/<section /g)).toHaveLength(2);
  expect(page).toContain("simulate({ seed: 1, fence: &#34;armed&#34;, … }, work)");
});
