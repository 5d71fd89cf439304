import { describe, expect, it } from "vitest";
import { connect } from "../../../src/connect.js";
import { memoryBackend } from "../../../src/backends/memory/index.js";
import { parseDuration } from "../../../src/core/duration.js";
import { GuaranteeError } from "../../../src/core/errors.js";
import { Tenure } from "../../../src/core/tenure.js";
import type { Backend } from "../../../src/core/backend.js";
import { simulatedRuntime } from "../../../src/testing/simulated-runtime.js";
import { rig } from "./rig.js";

describe("bad input is a typed error before any I/O, naming option and value (case 13)", () => {
  it.each([
    ["ttl", 0, RangeError],
    ["ttl", -1, RangeError],
    ["ttl", NaN, RangeError],
    ["ttl", Infinity, RangeError],
    ["ttl", "500", TypeError],
    ["ttl", null, TypeError],
    ["ttl", 2 ** 53, RangeError],
    ["ttl", 1e300, RangeError],
    ["ttl", 30n, TypeError],
    ["ttl", "30 s", TypeError],
    ["ttl", "-5s", TypeError],
    ["ttl", "1d", TypeError],
    ["ttl", {}, TypeError],
    ["ttl", true, TypeError],
    ["ttl", 5, RangeError],
    ["ttl", 366 * 24 * 3_600_000, RangeError],
    ["grace", 10_000, RangeError],
    ["grace", -1, RangeError],
    ["grace", "x", TypeError],
    ["renewEvery", 20_000, RangeError],
    ["renewEvery", 0, RangeError],
    ["renewEvery", Infinity, RangeError],
    ["maxHold", 0, RangeError],

    ["maxHold", NaN, RangeError],
    ["wait", -1, RangeError],
    ["wait", NaN, RangeError],
    ["wait", "soon", TypeError],
    ["renew", "yes", TypeError],
    ["signal", {}, TypeError],
    ["holderInfo", 7, TypeError],
  ] as const)("%s: %s", async (option, value, kind) => {
    const { a, calls } = await rig();
    const error = await a.acquire("x", { [option]: value }).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(kind);
    expect(error).toMatchObject({ code: "TENURE_INVALID_ARGUMENT", family: "caller", value });
    expect((error as Error).message).toContain(option);
    expect(calls).toEqual([]);
  });

  it.each([
    ["acquire", { arm: {} }],
    ["acquire", { onUnavailable: "proceed" }],
    ["tryAcquire", { wait: "1s" }],
    ["tryAcquire", { signal: new AbortController().signal }],
    ["acquireAll", { arm: {} }],
  ] as const)("%s does nothing with %j, and says so", async (call, options) => {
    const { a, calls } = await rig();
    const name = (call === "acquireAll" ? ["x"] : "x") as never;
    const [option] = Object.keys(options);
    const error = await a[call](name, options as object).catch((e: unknown) => e);
    expect(error).toBeInstanceOf(TypeError);
    expect((error as Error).message).toMatch(new RegExp(`^${option} must be left out`));
    expect(calls).toEqual([]);
  });

  it.each([
    ["", RangeError],
    ["a\0b", TypeError],
    ["\ud800", TypeError],
    ["é".repeat(257), RangeError],
    ["a".repeat(513), RangeError],
    ["€".repeat(171), RangeError],
    [7, TypeError],
    [undefined, TypeError],
    [null, TypeError],
  ] as const)("name: %j", async (name, kind) => {
    const { a, calls } = await rig();
    for (const call of [
      () => a.acquire(name as string),
      () => a.tryAcquire(name as string),
      () => a.hold(name as string, () => 1),
      () => a.inspect(name as string),
      () => a.acquireAll([name as string]),
    ]) {
      await expect(call()).rejects.toBeInstanceOf(kind);
    }
    expect(calls).toEqual([]);
  });

  it.each(["a".repeat(512), "é".repeat(256), "\u{1f512}".repeat(128), " ", "a/b:c", "é", "é"])(
    "a name of any other text is a lock of its own: %#",
    async (name) => {
      const { a } = await rig();
      const lease = await a.acquire(name);
      expect(lease.name).toBe(name);
      expect(await a.inspect("z")).toBeNull();
    },
  );

  it("acquireAll wants a list, maxHold more than the grace, a tenure plain facts", async () => {
    const { sim, a, calls } = await rig();
    await expect(a.acquireAll("abc" as never)).rejects.toBeInstanceOf(TypeError);
    const short = a.acquire("x", { grace: 500, maxHold: 400 });
    await expect(short).rejects.toMatchObject({ option: "maxHold", value: 400 });
    const long = a.acquire("x", { ttl: 5_000, grace: 3_000 });
    await expect(long).rejects.toThrow("grace must be below 1667 ms, a third of the TTL");
    expect(calls).toEqual([]);
    expect((await a.acquire("x", { maxHold: 50 })).signal.aborted).toBe(false);
    await expect(a.acquire("y", { holderInfo: { a: {} } as never })).rejects.toMatchObject({
      option: "holderInfo.a",
    });
    const long8k = a.acquire("y", { holderInfo: { log: "é".repeat(4_095) } });
    await expect(long8k).rejects.toThrow(
      /^holderInfo must be at most 8192 bytes .* together, .*8193 bytes/,
    );
    await a.acquire("z", { holderInfo: { log: `${"é".repeat(4_094)}x` } });
    const backend = memoryBackend({ runtime: sim.runtime });
    const open = Tenure.open(backend, sim.runtime, { holderInfo: { a: NaN } });
    await expect(open).rejects.toBeInstanceOf(TypeError);
  });

  it("a misspelt option is refused, not silently the default", async () => {
    const { a, calls } = await rig();
    const typo = a.acquire("x", { tll: "5s" } as never);
    await expect(typo).rejects.toMatchObject({ option: "tll", value: "5s" });
    await expect(a.tryAcquire("x", { graze: 1 } as never)).rejects.toBeInstanceOf(TypeError);
    await expect(connect("memory:", { purpos: "efficiency" } as never)).rejects.toMatchObject({
      option: "purpos",
    });
    expect(calls).toEqual([]);
  });

  it("break wants a bigint token and a reason; hold wants a function", async () => {
    const { a, calls } = await rig();
    await expect(a.break("x", { token: "3" as never, reason: "r" })).rejects.toThrow(
      /^token must be a bigint \(parseToken .*, got "3"$/,
    );
    await expect(a.break("x", { token: 3n, reason: "" })).rejects.toBeInstanceOf(TypeError);
    await expect(a.hold("x", {} as never, 3 as never)).rejects.toBeInstanceOf(TypeError);
    const swapped = a.hold("x", (() => 1) as never, { ttl: "1s" } as never);
    await expect(swapped).rejects.toThrow(/^the third argument must be left out after the work/);
    expect(calls).toEqual([]);
  });

  it.each<[option: string, call: (a: Tenure) => unknown]>([
    ["options", (a) => a.hold("x", undefined as never, () => 1)],
    ["options", (a) => a.hold("x", null as never, () => 1)],
    ["arm", (a) => a.hold("x", { arm: 5 as never }, () => 1)],
    ["arm.account", (a) => a.hold("x", { arm: { account: {} as never } }, () => 1)],
    ["arm.account", (a) => a.hold("x", { arm: { account: undefined as never } }, () => 1)],
    ["options", (a) => a.break("x", undefined as never)],
    ["names", (a) => a.acquireAll(undefined as never)],
    ["names", (a) => a.acquireAll({} as never)],
    ["lease", async (a) => a.detach(undefined as never)],
    ["lease", async (a) => a.detach({ name: "x" } as never)],
    ["detached", (a) => a.adopt(undefined as never)],
    ["detached", (a) => a.giveBack(null as never)],
    ["signal", (a) => a.acquire("x", { signal: { addEventListener: () => 1 } as never })],
  ])("%s that is no such thing: %#", async (option, call) => {
    const { a, calls } = await rig();
    const error = { code: "TENURE_INVALID_ARGUMENT", option };
    await expect(call(a)).rejects.toMatchObject(error);
    expect(calls).toEqual([]);
  });
});

describe("durations", () => {
  it.each([
    [1.2, 2],
    ["500ms", 500],
    ["30s", 30_000],
    ["2m", 120_000],
    ["1h", 3_600_000],
    ["1.5s", 1500],
    ["0.0001s", 1],
  ] as const)("%s is %i ms", (text, ms) => {
    expect(parseDuration(text, "ttl")).toBe(ms);
  });

  it("limits are told as people write them", () => {
    const limits = { minMs: 1_500, maxMs: 31_536_000_000 };
    expect(() => parseDuration(1, "ttl", limits)).toThrow(/at least 1500ms and at most 8760h/);
    expect(() => parseDuration(1, "ttl", { minMs: 10_000 })).toThrow(/at least 10s and finite/);
    // Whoever means seconds is told what a bare number is.
    expect(() => parseDuration(30, "ttl", { minMs: 50 })).toThrow(
      'ttl must be at least 50ms and finite (a bare number is milliseconds; "30s" is seconds)',
    );
    expect(() => parseDuration("30ms", "ttl", { minMs: 50 })).toThrow(/finite, got "30ms"/);
    expect(() => parseDuration(-1, "ttl", { minMs: 50 })).toThrow(/finite, got -1/);
  });

  it("undefined is the default: 30 s, or the store's nearest", async () => {
    const { a } = await rig();
    expect((await a.acquire("x", {})).ttlMs).toBe(30_000);
    const sim = simulatedRuntime({ seed: 2 });
    const short = await Tenure.open(
      memoryBackend({ runtime: sim.runtime, maxTtlMs: 5000 }),
      sim.runtime,
    );
    expect((await short.acquire("x")).ttlMs).toBe(5000);
  });
});

it("a promise that nobody awaited is told as one, wherever it is given", async () => {
  const backend = Promise.resolve({});
  await expect(connect(backend as never)).rejects.toThrow(/a promise: is an await missing\?/);
  const { a } = await rig();
  await expect(a.acquire(Promise.resolve("x") as never)).rejects.toThrow(/is an await missing\?/);
  const shy = new Proxy({}, { get: () => { throw new Error("no"); } });
  await expect(a.acquire(shy as never)).rejects.toThrow(/got an object/);
});

it("a URL with user and password, where none is taken, is not told", async () => {
  const { a } = await rig();
  for (const url of [
    "postgres://app:secret@db/app",
    "redlock:redis://:secret@one,redis://two",
    "postgres://db/app?user=app&password=secret",
    "127.0.0.1:6379,redis://:secret@db",
    `redis://:${"secret".repeat(20)}@db`,
  ]) {
    const error = await a.acquire("x", { ttl: url as never }).catch((thrown: unknown) => thrown);
    expect(String(error)).toMatch(/got "(postgres|redlock|redis|127\.0\.0\.1):…"$/);
  }
  await expect(a.acquire("x", { ttl: "a://b" as never })).rejects.toThrow(/got "a:\/\/b"/);
});

it("an option of a store, given to connect, is told where it goes", async () => {
  await expect(connect("memory:", { schema: "locks" } as never)).rejects.toThrow(
    /^schema must be left out: the options are purpose, .*await postgres\(url, \{ schema \}\)/,
  );
});

describe("what a store must promise", () => {
  const sim = simulatedRuntime({ seed: 2 });
  const plain = (): Backend => memoryBackend({ runtime: sim.runtime });
  const tokenless = (): Backend => {
    const backend = plain();
    const manifest = { ...backend.manifest, tokens: "none" };
    return { ...backend, manifest } as unknown as Backend;
  };

  it("tokens, unless the purpose is efficiency", async () => {
    await expect(Tenure.open(tokenless(), sim.runtime)).rejects.toBeInstanceOf(GuaranteeError);
    const tenure = await Tenure.open(tokenless(), sim.runtime, { purpose: "efficiency" });
    expect(tenure.purpose).toBe("efficiency");
  });

  it("as much as `require` says", async () => {
    await expect(
      Tenure.open(plain(), sim.runtime, { require: "consensus" }),
    ).rejects.toBeInstanceOf(GuaranteeError);
    const one = Tenure.open(plain(), sim.runtime, { require: "consensus" });
    await expect(one).rejects.toThrow(/are "durable"; consensus takes three voting members/);
    await Tenure.open(plain(), sim.runtime, { require: "durable" });
    await expect(
      Tenure.open(plain(), sim.runtime, { require: "sure" as never }),
    ).rejects.toBeInstanceOf(TypeError);
    await expect(
      Tenure.open(plain(), sim.runtime, { purpose: "fun" as never }),
    ).rejects.toBeInstanceOf(TypeError);
  });

  it("what its parts can keep", async () => {
    const lying = [
      { ...plain(), waiting: { kind: "poll" as const } },
      { ...plain(), proof: undefined },
      { ...plain(), sessions: {} },
      { ...plain(), renew: undefined },
      null,
      7,
    ];
    for (const backend of lying) {
      await expect(Tenure.open(backend as never, sim.runtime)).rejects.toBeInstanceOf(TypeError);
    }
  });
});
