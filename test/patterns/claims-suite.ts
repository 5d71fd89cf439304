/** What holds for claims over every store. */
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import type { Claim, ClaimCalls, LoneClaims } from "../../src/claims/contract.js";
import { SupersededError, StaleTokenError } from "../../src/core/errors.js";
import { memoryFence } from "../../src/fences/memory/open.js";
import { platform } from "../../src/platform/index.js";

type Open = (options?: object) => Promise<LoneClaims>;

/** Resolves with what is not null, once it comes. */
export async function eventually<R>(
  what: string,
  ask: () => Promise<R | null>,
  withinMs = 10_000,
): Promise<R> {
  for (const from = performance.now(); performance.now() - from < withinMs;) {
    const answer = await ask();
    if (answer !== null) return answer;
    await sleep(10);
  }
  throw new Error(`waited ${withinMs} ms for ${what}`);
}

/** A runtime whose wall clock is wrong. */
export function wrongBy(ms: number): object {
  const real = platform();
  const { monotonicMs, uptimeMs } = real.clock;
  return { ...real, clock: { monotonicMs, uptimeMs, wallMs: () => Date.now() + ms } };
}

/** Defines the cases; what `place` answers opens claims at one place, as often as it is called. */
export function claimsSuite(place: () => Promise<Open>): void {
  it("gives a key to one caller, for ever", async () => {
    const open = await place();
    const [a, b] = await Promise.all([open(), open()]);
    const won = await Promise.all(
      Array.from({ length: 20 }, (_, i) => (i % 2 === 0 ? a : b).claim("report", `worker ${i}`)),
    );
    expect(won.filter(Boolean)).toHaveLength(1);
    const owner = `worker ${won.indexOf(true)}`;
    expect(await a.inspect("report")).toMatchObject({ state: "running", owner, leaseLeftMs: null });
    expect(await a.claim("report", owner)).toBe(false);
    expect(await a.claim("Report", owner)).toBe(true);
    expect(await a.inspect("none")).toBeNull();
    await b.complete({ key: "report", owner });
    await b.complete({ key: "report", owner });
    await expect(b.complete({ key: "report", owner: "x" })).rejects.toThrow(SupersededError);
    expect(await a.inspect("report")).toMatchObject({ state: "done", owner });
    expect(await a.claim("report", "later")).toBe(false);
  });

  it("lets a leased key be taken over with a higher token, and refuses the first owner", async () => {
    const c = await (await place())();
    const first = (await c.claim("job", "a", { lease: "300ms" }))!;
    expect(first).toMatchObject({ key: "job", name: "job", owner: "a", leaseMs: 300 });
    expect(await c.claim("job", "b", { lease: "10s" })).toBeNull();
    expect(await c.claim("job", "b")).toBe(false);
    const second = await eventually("the lease to end", () =>
      c.claim("job", "b", { lease: "10s" }),
    );
    expect(second.token > first.token).toBe(true);
    expect(second.storeId).toBe(first.storeId);

    const refused = await c.complete(first).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(SupersededError);
    expect(refused).toMatchObject({
      resource: "job",
      token: first.token,
      mark: { token: second.token, holder: second.holder },
    });
    expect(String(refused)).toMatch(/the claim of a with token .* b with token .* has it/);
    await expect(c.fail(first, "late")).rejects.toThrow(SupersededError);
    expect(await c.inspect("job")).toMatchObject({ state: "running", owner: "b" });

    const fence = memoryFence();
    const late = await fence.arm(first, "account");
    await fence.arm(second, "account");
    await expect(late.write(() => undefined)).rejects.toThrow(StaleTokenError);

    await c.complete(second);
    await c.complete(second);
    await expect(c.fail(second)).rejects.toThrow(SupersededError);
    expect(await c.inspect("job")).toMatchObject({ state: "done", leaseLeftMs: null });
    expect(await c.claim("job", "c", { lease: "1s" })).toBeNull();
  });

  it("completes a claim whose time is over, as long as nobody has taken it over", async () => {
    const c = await (await place())();
    const claim = (await c.claim("job", "a", { lease: 1 }))!;
    await eventually("the time to be over", async () =>
      (await c.inspect("job"))?.leaseLeftMs === 0 ? true : null,
    );
    await c.complete(claim);
    expect(await c.inspect("job")).toMatchObject({ state: "done", token: claim.token });
  });

  it("hands out jobs in the order in which they were added, each to one", async () => {
    const open = await place();
    const [a, b] = await Promise.all([open(), open()]);
    const body = { to: "x@y", n: 2 ** 53 - 1, text: "é \u0000 😀", nothing: null };
    for (const key of ["z", "a", "m"]) expect(await a.add(key, body)).toBe(true);
    expect(await b.add("z")).toBe(false);
    expect(await a.inspect("z")).toEqual({
      ...{ key: "z", state: "pending", owner: null, holder: null, token: null },
      ...{ leaseLeftMs: null, reason: null, body },
    });
    const first = (await a.next("one", { lease: "300ms" }))!;
    expect(first).toMatchObject({ key: "z", body, owner: "one" });
    const second = (await b.next("two"))!;
    expect(second).toMatchObject({ key: "a", body, leaseMs: null });
    expect(await b.claim("m", "three")).toBe(true);
    const again = await eventually("a lease to end", () => b.next("two", { lease: "10s" }));
    expect(again).toMatchObject({ key: "z", owner: "two", body });
    expect(again.token > first.token).toBe(true);
    expect(await b.next("two")).toBeNull();
    await b.complete(second);
    await b.fail(again, "no such address");
    expect((await a.list()).map(({ key, state, reason }) => [key, state, reason])).toEqual([
      ["a", "done", null],
      ["m", "running", null],
      ["z", "failed", "no such address"],
    ]);
    expect((await a.list({ state: "running" })).map(({ key }) => key)).toEqual(["m"]);
    const page = await a.list({ limit: 2 });
    expect(page.map(({ key }) => key)).toEqual(["a", "m"]);
    expect((await a.list({ limit: 2, after: "m" })).map(({ key }) => key)).toEqual(["z"]);
  });

  it("does not look at the wall clock of a process", async () => {
    const open = await place();
    const right = await open();
    const early = await open({ runtime: wrongBy(-3_600_000) });
    const late = await open({ runtime: wrongBy(3_600_000) });
    expect(await right.claim("a", "x", { lease: "60s" })).not.toBeNull();
    for (const wrong of [early, late]) {
      expect(await wrong.claim("a", "y", { lease: "60s" })).toBeNull();
      expect(await wrong.next("y")).toBeNull();
      const { leaseLeftMs } = (await wrong.inspect("a"))!;
      expect(leaseLeftMs).toBeGreaterThan(40_000);
      expect(leaseLeftMs).toBeLessThanOrEqual(60_000);
    }
    for (const [key, wrong] of [["b", early] as const, ["c", late] as const]) {
      const mine = (await wrong.claim(key, "y", { lease: "300ms" }))!;
      const taken = await eventually("the lease to end", () =>
        right.claim(key, "x", { lease: "60s" }),
      );
      expect(taken.token > mine.token).toBe(true);
    }
  });

  it("tells wrong arguments before anything is sent", async () => {
    const c = await (await place())();
    const wrong: readonly (readonly [RegExp, (c: ClaimCalls<"promised">) => Promise<unknown>])[] = [
      [/^key must be/, (on) => on.claim("", "a")],
      [/^key must be/, (on) => on.claim("x".repeat(513), "a")],
      [/^key must be/, (on) => on.claim(7 as never, "a")],
      [/^owner must be/, (on) => on.claim("k", "")],
      [/^owner must be/, (on) => on.next("a\0b")],
      [/^lease must be/, (on) => on.claim("k", "a", { lease: 0 })],
      [/^lease must be/, (on) => on.claim("k", "a", { lease: Infinity })],
      [/^lease must be/, (on) => on.next("a", { lease: "5" as never })],
      [/^ttl must be left out/, (on) => on.claim("k", "a", { ttl: 5 } as never)],
      [/^body must be/, (on) => on.add("k", () => undefined)],
      [/^body must be/, (on) => on.add("k", 1n)],
      [/^claim must be/, (on) => on.complete(null as never)],
      [/^claim\.owner must be/, (on) => on.complete({ key: "k" } as never)],
      [/^claim\.token must be/, (on) => on.complete({ key: "k", owner: "a", token: 1 } as never)],
      [/^reason must be/, (on) => on.fail({ key: "k", owner: "a" }, 5 as never)],
      [/^state must be/, (on) => on.list({ state: "lost" as never })],
      [/^limit must be/, (on) => on.list({ limit: 0 })],
    ];
    for (const [message, call] of wrong) await expect(call(c)).rejects.toThrow(message);
    expect(await c.list()).toEqual([]);
    const unknown = { key: "none", owner: "a" } as const;
    await expect(c.complete(unknown)).rejects.toThrow(/"none" is not known/);
    await c.add("waiting");
    const early = c.complete({ key: "waiting", owner: "a" });
    await expect(early).rejects.toThrow(/was never made: the key is pending/);
  });

  it("refuses a claim that was made up", async () => {
    const c = await (await place())();
    const claim = (await c.claim("job", "a", { lease: "10s" }))!;
    const forged: Claim[] = [
      { ...claim, holder: "other" },
      { ...claim, token: (claim.token + 1n) as Claim["token"] },
    ];
    for (const one of forged) await expect(c.complete(one)).rejects.toThrow(SupersededError);
    await expect(c.complete({ key: "job", owner: "a" })).rejects.toThrow(SupersededError);
    await c.complete(claim);
  });
}
