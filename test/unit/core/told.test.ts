import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { inspect } from "node:util";
import { describe, expect, it, onTestFinished } from "vitest";
import { connect } from "../../../src/connect.js";
import {
  ArgumentTypeError,
  LeaseLostError,
  NotAcquiredError,
  StaleTokenError,
  StepDownTimeoutError,
  type TenureError,
  UnavailableError,
} from "../../../src/core/errors.js";
import { election } from "../../../src/election/election.js";
import { memoryFence } from "../../../src/fences/memory/open.js";
import { present, rig } from "./rig.js";

const parsed = (value: unknown): unknown => JSON.parse(JSON.stringify(value));

describe("what a logger shows", () => {
  it("of a lease: its facts, with the token as decimal text", async () => {
    const { a, sim } = await rig();
    const lease = present(await a.tryAcquire("x", { ttl: "10s" }));
    const { name, holder, storeId, token } = lease;
    const facts = { name, holder, storeId, ttlMs: 10_000, state: "held", remainingMs: 9_898 };
    expect(parsed({ lease })).toEqual({ lease: { ...facts, token: String(token) } });
    const shown = inspect({ lease });
    expect(shown).toContain(`token: ${token}n`);
    expect(shown).toContain("Lease {");
    // What it works with inside.
    expect(shown).not.toMatch(/startedAt|grant|terms|agenda|failures/);
    await sim.until(lease.release());
    expect(parsed(lease)).toMatchObject({ state: "released", remainingMs: 0 });
  });

  it("of a lease also when its tenure and its store are closed", async () => {
    const folder = mkdtempSync(path.join(tmpdir(), "tenure-told-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const tenure = await connect(`sqlite:${path.join(folder, "x.db")}`);
    const lease = present(await tenure.tryAcquire("x"));
    const { storeId } = lease;
    await tenure.close();
    expect(parsed(lease)).toMatchObject({ name: "x", storeId, state: "released" });
    expect(inspect(lease)).toContain(storeId);
  });

  it("of a tenure: its store and purpose, and not what it works with", async () => {
    const { a, sim } = await rig();
    const { backend } = a.manifest;
    const facts = `{ backend: '${backend}', purpose: 'correctness', isOpen: true }`;
    expect(inspect(a)).toBe(`Tenure ${facts}`);
    await sim.until(a.close());
    expect(parsed(a)).toMatchObject({ purpose: "correctness", isOpen: false });
  });

  it("of a term of leadership and an armed handle", async () => {
    const { a, sim } = await rig();
    const term = await sim.until(election(a, "lead").campaign());
    expect(parsed(term)).toMatchObject({ name: "lead", term: String(term.term) });
    expect(inspect(term)).toContain(`term: ${term.term}n`);
    const handle = await memoryFence<number>().arm(term, "r");
    expect(parsed(handle)).toMatchObject({ resource: "r", token: String(term.token), arm: 1 });
    expect(inspect(handle)).not.toMatch(/remaining|shared/);
    await sim.until(term.resign());
    expect(parsed(term)).toMatchObject({ revokedBecause: "resigned" });
  });

  it("of errors: message and facts, and of the work's outcome not the value", () => {
    const held = { holder: "h", token: 34n, why: "held" } as const;
    const loop: { self?: unknown } = {};
    loop.self = loop;
    const cases: [TenureError, object][] = [
      [new NotAcquiredError("m", { lock: "x", held }), { lock: "x", held: { token: "34" } }],
      [new LeaseLostError("m", { reason: "taken", by: held }), { by: { token: "34" } }],
      [
        new LeaseLostError("m", {
          reason: "deadline",
          outcome: { status: "fulfilled", value: loop },
        }),
        { reason: "deadline", outcome: "fulfilled" },
      ],
      [
        new StaleTokenError("m", { resource: "r", token: 33n, mark: { token: 34n, holder: "h" } }),
        { resource: "r", token: "33", mark: { token: "34", holder: "h" } },
      ],
      [new StepDownTimeoutError("m", { term: 34n }), { term: "34" }],
    ];
    for (const [error, facts] of cases) {
      const { name, code, family } = error;
      expect(parsed({ error })).toMatchObject({ error: { name, message: "m", code, family } });
      expect(parsed(error)).toMatchObject(facts);
    }
  });

  it("of an error without a cause: no cause", () => {
    expect(inspect(new UnavailableError("m", { cause: undefined }))).not.toContain("cause");
    expect(new UnavailableError("m", { cause: 0 }).cause).toBe(0);
  });

  it("of a wrong argument: never what was given, which may be a client with its password", () => {
    const error = new ArgumentTypeError("pool", { password: "hunter2", at: 1n }, "a pool");
    expect(parsed(error)).toEqual({
      name: "TypeError",
      message: "pool must be a pool, got an object",
      code: "TENURE_INVALID_ARGUMENT",
      family: "caller",
      option: "pool",
    });
    expect(inspect(error)).not.toContain("hunter2");
    expect(error.value).toMatchObject({ password: "hunter2" });
  });
});
