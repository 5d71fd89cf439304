import { beforeEach, describe, expect, it } from "vitest";
import { STRAGGLER_MS } from "../../../src/backends/redlock/ballot.js";
import { redlockBackend } from "../../../src/backends/redlock/index.js";
import type { Answer, Backend, Call, Grant } from "../../../src/core/backend.js";
import { OutcomeUnknownError, UnavailableError } from "../../../src/core/errors.js";
import { Tenure } from "../../../src/core/tenure.js";
import { simulatedRuntime, type Simulation } from "../../../src/testing/simulated-runtime.js";
import { modelFaults, ModelServer } from "./model-servers.js";

const call: Call = { signal: new AbortController().signal, timeoutMs: 5_000 };
const TTL_MS = 10_000;

let simulation: Simulation;
let servers: ModelServer[];

function arrange(count: number, seed = 1): void {
  simulation = simulatedRuntime({ seed });
  servers = Array.from({ length: count }, () => new ModelServer(simulation.runtime));
}

function client(toServerMs?: () => number): Backend<undefined> {
  return redlockBackend({
    servers: servers.map((server) => server.connect(toServerMs)),
    faults: modelFaults,
    runtime: simulation.runtime,
    storeId: "store",
  });
}

async function opened(toServerMs?: () => number): Promise<Backend<undefined>> {
  const backend = client(toServerMs);
  await until(backend.open!(call));
  return backend;
}

/** What came of it once simulated time has passed. */
const until = <T>(asked: Answer<T>, limitMs?: number): Promise<T> =>
  simulation.until(Promise.resolve(asked), limitMs);

/** What came of it, and after how many milliseconds. */
async function timed<T>(asked: Answer<T>): Promise<{ outcome: T | Error; afterMs: number }> {
  const from = simulation.runtime.clock.monotonicMs();
  const outcome = await until(Promise.resolve(asked).catch((error: unknown) => error as Error));
  return { outcome, afterMs: simulation.runtime.clock.monotonicMs() - from };
}

const holders = (name = "x"): (string | undefined)[] => servers.map((s) => s.holderOf(name));
const request = (holder: string) => ({ name: "x", holder, ttlMs: TTL_MS });
const grantOf = (holder: string): Grant<undefined> => ({ ...request(holder), token: undefined });

async function take(backend: Backend<undefined>, holder: string): Promise<Grant<undefined>> {
  const answer = await until(backend.acquire(request(holder), call));
  if (!("grant" in answer)) throw new Error("refused");
  return answer.grant;
}

beforeEach(() => arrange(3));

describe("a majority of servers", () => {
  it("grants as soon as it has answered: a server that hangs slows nothing down", async () => {
    const backend = await opened();
    servers[0]!.become({ fault: "hang" });
    const { outcome, afterMs } = await timed(backend.acquire(request("a"), call));
    expect(outcome).toEqual({ grant: grantOf("a") });
    expect(afterMs).toBe(2);
    const renewed = await timed(backend.renew([grantOf("a")], call));
    expect(renewed).toEqual({ outcome: ["renewed"], afterMs: 2 });
    const released = await timed(backend.release([{ name: "x", holder: "a" }], call));
    expect(released).toEqual({ outcome: ["released"], afterMs: 2 });
    servers[0]!.become({});
    await simulation.advance(10);
    expect(holders()).toEqual([undefined, undefined, undefined]);
  });

  it("refuses as soon as none can be had, and waits for stragglers only a little", async () => {
    const [a, b] = [await opened(), await opened()];
    await take(a, "a");
    const refused = await timed(b.acquire(request("b"), call));
    expect(refused).toMatchObject({ outcome: { held: { holder: "a" } }, afterMs: 2 });
    servers[2]!.forget();
    servers[1]!.become({ fault: "hang" });
    // Granted by one, refused by one: the third would decide.
    const undecided = await timed(b.acquire(request("b"), call));
    expect(undecided.outcome).toMatchObject({ held: { holder: "a" } });
    expect(undecided.afterMs).toBeGreaterThanOrEqual(STRAGGLER_MS);
    expect(undecided.afterMs).toBeLessThan(5 * (STRAGGLER_MS + 2) + 400);
    servers[1]!.become({});
    await simulation.advance(10);
    expect(holders()).toEqual(["a", "a", undefined]);
  });

  it("tells when a majority will be free: the time left of those that are needed", async () => {
    const [a, b] = [await opened(), await opened()];
    await take(a, "a");
    await simulation.advance(1_000);
    servers[0]!.become({ fault: "refuse" });
    await until(a.renew([grantOf("a")], call));
    servers[0]!.become({});
    const answer = await until(b.acquire(request("b"), call));
    expect(answer).toMatchObject({ held: { ttlMs: TTL_MS, why: "held", leftMs: TTL_MS - 2 } });
    expect(await until(b.inspect("x", call))).toMatchObject({ holder: "a" });
  });

  it("takes back what some granted when a majority is not to be had, also where it failed", async () => {
    const backend = await opened();
    servers[1]!.become({ fault: "refuse" });
    servers[2]!.become({ fault: "refuse" });
    const { outcome } = await timed(backend.acquire(request("a"), call));
    expect(outcome).toBeInstanceOf(UnavailableError);
    await simulation.advance(10);
    expect(holders()).toEqual([undefined, undefined, undefined]);
    expect(servers.map(({ asked }) => asked.at(-1))).toEqual(["release", "release", "release"]);
  });

  it("says that the outcome is unknown when a majority may have granted", async () => {
    const backend = await opened();
    const losing = (asked: string) => (asked === "acquire" ? { fault: "lose-reply" as const } : {});
    for (const server of servers.slice(1)) server.become(losing);
    const { outcome } = await timed(backend.acquire(request("a"), call));
    expect(outcome).toBeInstanceOf(OutcomeUnknownError);
    await simulation.advance(10);
    expect(holders()).toEqual([undefined, undefined, undefined]);
  });

  it("takes back the grant of a straggler, and not that of a later try of the same holder", async () => {
    const backend = await opened();
    for (const server of servers.slice(1)) server.become({ fault: "hang" });
    const first = timed(backend.acquire(request("a"), { ...call, timeoutMs: 1_000 }));
    expect((await first).outcome).toBeInstanceOf(OutcomeUnknownError);
    servers[1]!.become({});
    const second = await timed(backend.acquire(request("a"), call));
    expect(second.outcome).toEqual({ grant: grantOf("a") });
    servers[2]!.become({});
    await simulation.advance(10);
    expect(holders()).toEqual(["a", "a", "a"]);
  });

  it("gives a majority back that came when its time was over", async () => {
    const backend = client(() => TTL_MS * 0.6);
    const opening = Tenure.open(backend, simulation.runtime, {
      purpose: "efficiency",
      timeout: "1h",
    });
    const tenure = await until(opening);
    const { outcome } = await timed(tenure.tryAcquire("x", { ttl: TTL_MS }));
    expect(outcome).toBeInstanceOf(UnavailableError);
    expect((outcome as Error).message).toMatch(/too late/);
    await simulation.advance(TTL_MS);
    for (const server of servers) expect(server.asked).toContain("release");
    expect(holders()).toEqual([undefined, undefined, undefined]);
  });
});

describe("ties", () => {
  const seeds = Array.from({ length: 25 }, (_, i) => i + 1);

  it.each([
    [2, 4],
    [3, 3],
    [4, 4],
    [3, 5],
    [2, 6],
  ])("of %i contenders on %i servers settle, with one winner", async (contenders, count) => {
    let ties = 0;
    for (const seed of seeds) {
      arrange(count, seed);
      const clients: Backend<undefined>[] = [];
      // Each is near to some servers and far from others, so that they split them.
      for (let i = 0; i < contenders; i++) {
        clients.push(await opened(() => simulation.runtime.random.uniform() * 3));
      }
      const all = clients.map(async (backend, i) => backend.acquire(request(`c${i}`), call));
      const answers = await until(Promise.all(all));
      const winners = answers.flatMap((answer) => ("grant" in answer ? [answer.grant.holder] : []));
      expect(winners.length, `seed ${seed}`).toBe(1);
      const asked = servers.flatMap((server) => server.asked).filter((one) => one === "acquire");
      if (asked.length > contenders * count) ties += 1;
      await simulation.advance(1_000);
      const theirs = holders().filter((holder) => holder === winners[0]).length;
      expect(theirs, `seed ${seed}`).toBeGreaterThan(count / 2);
      expect(holders().every((holder) => holder === winners[0] || holder === undefined)).toBe(true);
    }
    expect(ties, "the test must see ties").toBeGreaterThan(0);
  });

  it("settle for waiters of separate processes: everyone gets the lease in the end", async () => {
    for (const seed of seeds.slice(0, 5)) {
      arrange(4, seed);
      const { runtime } = simulation;
      const tenures: Tenure<undefined>[] = [];
      for (let i = 0; i < 4; i++) {
        const backend = client(() => runtime.random.uniform() * 3);
        tenures.push(await until(Tenure.open(backend, runtime, { purpose: "efficiency" })));
      }
      const done: number[] = [];
      const turns = tenures.map(async (tenure, i) => {
        const lease = await tenure.acquire("x", { ttl: "10s" });
        done.push(i);
        await lease.release();
      });
      await until(Promise.all(turns), 30_000);
      expect(done.sort()).toEqual([0, 1, 2, 3]);
    }
  });
});

describe("renewals", () => {
  it("are renewed by a majority when one server refuses, and nothing is released (case 10)", async () => {
    const backend = await opened();
    await take(backend, "a");
    servers[1]!.forget();
    expect(await until(backend.renew([grantOf("a")], call))).toEqual(["renewed"]);
    servers[1]!.become({ fault: "refuse" });
    expect(await until(backend.renew([grantOf("a")], call))).toEqual(["renewed"]);
    await simulation.advance(100);
    expect(servers.flatMap(({ asked }) => asked)).not.toContain("release");
    expect(holders()).toEqual(["a", undefined, "a"]);
  });

  it("never make a record anew", async () => {
    const backend = await opened();
    await take(backend, "a");
    for (const server of servers) server.forget();
    const outcome = await until(backend.renew([grantOf("a")], call));
    expect(outcome).toEqual([{ lost: "absent" }]);
    expect(holders()).toEqual([undefined, undefined, undefined]);
  });

  it("tell by whom the lease was taken", async () => {
    const [a, b] = [await opened(), await opened()];
    await take(a, "a");
    for (const server of servers) server.forget();
    await take(b, "b");
    const outcome = await until(a.renew([grantOf("a")], call));
    expect(outcome).toEqual([{ lost: expect.objectContaining({ holder: "b" }) }]);
  });

  it("are unavailable when too few are left, unknown when a majority may have renewed", async () => {
    const backend = await opened();
    await take(backend, "a");
    servers[1]!.become({ fault: "refuse" });
    servers[2]!.become({ fault: "refuse" });
    expect(await until(backend.renew([grantOf("a")], call))).toEqual(["unavailable"]);
    servers[2]!.become({ fault: "lose-reply" });
    expect(await until(backend.renew([grantOf("a")], call))).toEqual(["unknown"]);
    servers[1]!.become({ fault: "hang" });
    servers[2]!.become({ fault: "hang" });
    const { outcome, afterMs } = await timed(backend.renew([grantOf("a")], call));
    expect(outcome).toEqual(["unknown"]);
    expect(afterMs).toBeLessThan(call.timeoutMs);
  });

  it("of one lease that cannot be decided hold others up only a little", async () => {
    const backend = await opened();
    await take(backend, "a");
    const other = { ...grantOf("o"), name: "other" };
    await until(backend.acquire({ ...request("o"), name: "other" }, call));
    servers[0]!.become({ fault: "hang" });
    servers[1]!.put("x", "stranger");
    const { outcome, afterMs } = await timed(backend.renew([grantOf("a"), other], call));
    expect(outcome).toEqual(["unknown", "renewed"]);
    expect(afterMs).toBeLessThanOrEqual(STRAGGLER_MS + 4);
  });
});

describe("connections", () => {
  it("are closed when it cannot be opened, or is closed while it is being opened", async () => {
    for (const server of servers) server.become({ fault: "refuse" });
    const refused = client();
    await expect(until(refused.open!(call))).rejects.toBeInstanceOf(UnavailableError);
    for (const server of servers) server.become({});
    const early = client();
    const opening = early.open!(call);
    await early.close();
    await until(opening);
    await expect((async () => early.inspect("x", call))()).rejects.toThrow(/closed/);
    expect(servers.map(({ connections }) => connections)).toEqual([0, 0, 0]);
    const used = await opened();
    expect(servers.map(({ connections }) => connections)).toEqual([1, 1, 1]);
    await until(used.close());
    expect(servers.map(({ connections }) => connections)).toEqual([0, 0, 0]);
    expect(simulation.pendingTimers()).toBe(0);
  });
});

describe("releases", () => {
  it("are certain once a majority has answered, unknown without one", async () => {
    const backend = await opened();
    await take(backend, "a");
    const ask = () => backend.release([{ name: "x", holder: "a" }], call);
    servers[0]!.become({ fault: "refuse" });
    servers[1]!.become({ fault: "lose-reply" });
    expect(await until(ask())).toEqual(["unknown"]);
    servers[0]!.become({});
    servers[1]!.become({});
    // One has it still, two have not: it was not held any more.
    expect(await until(ask())).toEqual(["not-held"]);
    await simulation.advance(10);
    expect(holders()).toEqual([undefined, undefined, undefined]);
  });
});

describe("a value that Tenure did not write", () => {
  it("is told as such, never as held", async () => {
    const backend = await opened();
    for (const server of servers) server.put("x", "somebody-else's");
    const { outcome } = await timed(backend.acquire(request("a"), call));
    expect(outcome).toMatchObject({ family: "unavailable", retryable: false });
    expect((outcome as Error).message).toMatch(/not of Tenure's making/);
    expect(await until(backend.inspect("x", call))).toBeNull();
  });
});
