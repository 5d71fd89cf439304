import nodeCrypto, { randomBytes, randomInt, randomUUID } from "node:crypto";
import { uptime } from "node:os";
import { setImmediate as soon } from "node:timers";
import { setTimeout as sleep } from "node:timers/promises";
import { describe, expect, test } from "vitest";
import { SimulatedProcess } from "../../src/lab/process.js";
import { TripwireError } from "../../src/lab/tripwires.js";
import { World } from "../../src/lab/world.js";

const CALLS: readonly (readonly [string, () => unknown])[] = [
  ["Date.now()", () => Date.now()],
  ["new Date()", () => new Date()],
  ["Date()", () => Date()],
  ["setTimeout()", () => setTimeout(() => undefined, 1)],
  ["setInterval()", () => setInterval(() => undefined, 1)],
  ["setImmediate()", () => setImmediate(() => undefined)],
  ["performance.now()", () => performance.now()],
  ["Math.random()", () => Math.random()],
  ["crypto.randomUUID()", () => crypto.randomUUID()],
  ["crypto.getRandomValues()", () => crypto.getRandomValues(new Uint8Array(1))],
  ["crypto.getRandomValues()", () => nodeCrypto.getRandomValues(new Uint8Array(1))],
  ["crypto.randomBytes()", () => nodeCrypto.randomBytes(1)],
  ["crypto.randomBytes()", () => randomBytes(1)],
  ["crypto.randomInt()", () => randomInt(2)],
  ["crypto.randomUUID()", () => randomUUID()],
  ["AbortSignal.timeout()", () => AbortSignal.timeout(1)],
  ["timers.setImmediate()", () => soon(() => undefined)],
  ["timers/promises.setTimeout()", () => void sleep(1)],
  ["os.uptime()", () => uptime()],
  ["process.hrtime()", () => process.hrtime()],
];

function describeScope(): string {
  const own = (target: object, name: string): unknown =>
    Object.getOwnPropertyDescriptor(target, name)?.value;
  const of = [globalThis, Math, performance, crypto, nodeCrypto];
  const names = ["Date", "setTimeout", "setInterval", "setImmediate", "now", "random"];
  return [...names, "randomUUID", "getRandomValues", "randomBytes"]
    .map((name) => of.map((target) => String(typeof own(target, name))).join(" "))
    .join("\n");
}

describe("in a simulated world", () => {
  test.each(CALLS)("%s throws and ends the run, also where nobody hears of it", async (call, run) => {
    const world = new World(1);
    const process = new SimulatedProcess(world, "A");
    let thrown: unknown;
    const code = async (): Promise<void> => {
      await process.sleep(10);
      try {
        run();
      } catch (error) {
        thrown = error;
      }
    };
    void code();
    const running = world.run(1_000);
    await expect(running).rejects.toThrow(`${call} was called in a simulated world`);
    expect(thrown).toBeInstanceOf(TripwireError);
  });

  test("a date from a number is nobody's clock", async () => {
    const world = new World(1);
    let year: number | undefined;
    world.after(10, () => {
      const date = new Date(0);
      if (date instanceof Date) year = date.getUTCFullYear();
    });
    await world.run(1_000);
    expect(year).toBe(1970);
  });
});

describe("beside a simulated world", () => {
  test("real timers fire and may look at the clock while it runs", async () => {
    const world = new World(1);
    const seen: number[] = [];
    const look = (): void => {
      seen.push(Date.now() + performance.now() + Math.random());
      if (seen.length < 3) setTimeout(look, 0);
      else world.after(0, () => void (isOver = true));
    };
    let isOver = false;
    setTimeout(look, 0);
    // Ends when the real timers have had their turns, however many events that takes.
    const tick = (): void => void (isOver || world.after(1, tick));
    world.after(1, tick);
    await world.run(Infinity);
    expect(seen).toHaveLength(3);
  });

  test("who awaited the run is free to look, and finds everything as it was", async () => {
    const before = describeScope();
    const [one, two] = [new World(1), new World(2)];
    let during: string | undefined;
    one.after(10, () => (during = describeScope()));
    two.after(10, () => undefined);
    await Promise.all([one.run(1_000), two.run(2_000)]);
    expect(Date.now()).toBeGreaterThan(0);
    expect(describeScope()).toBe(before);
    expect(during).not.toBe(before);
  });

  test("a run that fails takes its wires away, too", async () => {
    const world = new World(1);
    const real = { Date, setTimeout };
    world.after(10, () => world.fail(new Error("for a reason")));
    await expect(world.run(1_000)).rejects.toThrow("for a reason");
    expect({ Date, setTimeout }).toEqual(real);
    expect(randomBytes(1)).toHaveLength(1);
  });
});
