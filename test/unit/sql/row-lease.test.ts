import { expect, it } from "vitest";
import { now } from "../../../src/core/deadline.js";
import { LeaseLostError } from "../../../src/core/errors.js";
import { toToken } from "../../../src/core/token.js";
import { RowLease } from "../../../src/sql/row-lease.js";
import { simulatedRuntime } from "../../../src/testing/simulated-runtime.js";

const LEASE_MS = 3_000;
/** 1 % and 2 ms: what a holder gives up for clocks that run apart. */
const VALID_MS = LEASE_MS * 0.99 - 2;
const GRACE_MS = 300;

function begin(extend: () => Promise<boolean>) {
  const world = simulatedRuntime({ seed: 7 });
  const { runtime } = world;
  let extended = 0;
  const grant = {
    ...{ name: "job", token: toToken(5n), holder: "h", storeId: "s", leaseMs: LEASE_MS },
    sentAt: now(runtime.clock),
  };
  const counted = (): Promise<boolean> => {
    extended += 1;
    return extend();
  };
  const lease = new RowLease(grant, { kind: "queue", runtime, extend: counted });
  return { world, lease, extended: () => extended };
}

it("lasts from before its sending, less the margin, and is extended in the background", async () => {
  const { world, lease, extended } = begin(async () => true);
  expect(lease.remaining()).toBeCloseTo(VALID_MS);
  lease.keep();
  await world.advance(10 * LEASE_MS);
  expect(lease.signal.aborted).toBe(false);
  expect(lease.remaining()).toBeGreaterThan(VALID_MS / 2);
  expect(extended()).toBeGreaterThanOrEqual(30);
  expect(world.events.filter(({ type }) => type === "renewed")).toHaveLength(extended());
  lease.end();
  expect(world.pendingTimers()).toBe(0);
  expect(lease.remaining()).toBe(0);
});

it("tells its end a grace before the deadline when nothing extends it", async () => {
  const { world, lease } = begin(async () => true);
  await world.advance(VALID_MS - GRACE_MS - 5);
  expect(lease.signal.aborted).toBe(false);
  await world.advance(10);
  expect(lease.signal.reason).toBeInstanceOf(LeaseLostError);
  expect(lease.signal.reason).toMatchObject({ reason: "deadline", lock: "job" });
  await expect(lease.extend()).rejects.toThrow(LeaseLostError);
});

it("is lost at once when the row is another's", async () => {
  const { world, lease } = begin(async () => false);
  lease.keep();
  await world.advance(LEASE_MS / 3);
  expect(lease.signal.reason).toMatchObject({ reason: "taken" });
  expect(lease.remaining()).toBe(0);
  expect(world.events.map(({ type }) => type)).toEqual(["lost"]);
  expect(world.pendingTimers()).toBe(0);
});

it("goes on asking while a request hangs, and ends by its deadline if none is answered", async () => {
  const { world, lease, extended } = begin(() => new Promise(() => undefined));
  lease.keep();
  await world.advance(VALID_MS);
  expect(extended()).toBeGreaterThanOrEqual(2);
  expect(lease.signal.reason).toMatchObject({ reason: "deadline" });
});

it("counts an answer that comes late from its own sending", async () => {
  let answer = (_: boolean): void => undefined;
  const { world, lease } = begin(() => new Promise((resolve) => (answer = resolve)));
  const first = lease.extend();
  await world.advance(1_000);
  answer(true);
  await first;
  expect(lease.remaining()).toBeCloseTo(VALID_MS - 1_000);
});

it.each(["told by the timer", "seen by the clock alone, in a blocked event loop"])(
  "stays lost when an answer comes after its end, %s",
  async (how) => {
    let answer = (_: boolean): void => undefined;
    const { world, lease } = begin(() => new Promise((resolve) => (answer = resolve)));
    const extending = lease.extend();
    const refused = expect(extending).rejects.toMatchObject({ reason: "deadline" });
    if (how.startsWith("told")) await world.advance(LEASE_MS);
    else world.block(LEASE_MS);
    answer(true);
    await refused;
    expect(lease.signal.reason).toBeInstanceOf(LeaseLostError);
    await world.advance(LEASE_MS);
    expect(lease.remaining()).toBe(0);
    expect(world.events.map(({ type }) => type)).toEqual(["lost"]);
    expect(world.pendingTimers()).toBe(0);
  },
);

it("asks for nothing once it is over by the clock", async () => {
  const { world, lease, extended } = begin(async () => true);
  world.block(LEASE_MS);
  await expect(lease.extend()).rejects.toMatchObject({ reason: "deadline" });
  expect(extended()).toBe(0);
});

it("survives a store that fails in between, and says so", async () => {
  let fails = true;
  const { world, lease } = begin(async () => {
    if (fails) throw new Error("down");
    return true;
  });
  lease.keep();
  await world.advance(LEASE_MS / 2);
  expect(world.events.map(({ type }) => type)).toContain("unknown");
  fails = false;
  await world.advance(3 * LEASE_MS);
  expect(lease.signal.aborted).toBe(false);
});

it("is over by the clock when it is looked at, before any timer has fired", () => {
  const { world, lease } = begin(async () => true);
  world.block(LEASE_MS);
  expect(lease.remaining()).toBe(0);
});
