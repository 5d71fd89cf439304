/** One short suite of elections for every store with tokens. */
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Backend } from "../../src/core/backend.js";
import { NotLeaderError, StaleTokenError } from "../../src/core/errors.js";
import { Tenure } from "../../src/core/tenure.js";
import { type Election, election } from "../../src/election/election.js";
import { memoryFence } from "../../src/fences/memory/open.js";
import { platform } from "../../src/platform/index.js";
import { describeStore, startWarm, STORES, type Started, type Store } from "./every-store/stores.js";

/** A process of its own, as far as the store can tell, whose way to the store can be cut. */
interface Client {
  readonly tenure: Tenure;
  readonly election: Election;
  cut(): void;
  heal(): void;
}

/** The same backend, none of whose calls reach the store while `isCut`. */
function severable(inner: Backend, isCut: () => boolean): Backend {
  const orHang =
    <A extends unknown[], R>(call: (...args: A) => R) =>
    (...args: A): R =>
      isCut() ? (new Promise<never>(() => undefined) as R) : call(...args);
  const { sessions } = inner;
  return {
    // Both are known only once the backend is open.
    get manifest() {
      return inner.manifest;
    },
    get storeId() {
      return inner.storeId;
    },
    ...(inner.open === undefined ? {} : { open: (call) => inner.open!(call) }),
    ...(inner.proof === undefined ? {} : { proof: (grant) => inner.proof!(grant) }),
    acquire: orHang((request, call) => inner.acquire(request, call)),
    renew: orHang((grants, call) => inner.renew(grants, call)),
    release: orHang((requests, call) => inner.release(requests, call)),
    break: orHang((name, token, call) => inner.break(name, token, call)),
    inspect: orHang((name, call) => inner.inspect(name, call)),
    list: (prefix, call) => inner.list(prefix, call),
    waiting: inner.waiting,
    ...(sessions === undefined
      ? {}
      : {
          sessions: {
            open: orHang((ttlMs, call) => sessions.open(ttlMs, call)),
            keepAlive: orHang((id, call) => sessions.keepAlive(id, call)),
            close: orHang((id, call) => sessions.close(id, call)),
          },
        }),
    close: () => inner.close(),
  };
}

async function client({ backend, ttlMs }: Store, url: string, who: string): Promise<Client> {
  let isCut = false;
  const inner = await backend(url);
  const severed = severable(inner, () => isCut);
  const tenure = await Tenure.open(severed, platform());
  return {
    tenure,
    election: election(tenure, "job", { ttl: ttlMs, info: { who } }),
    cut: () => void (isCut = true),
    heal: () => void (isCut = false),
  };
}

/** Waits for a condition, for ten seconds at most. */
async function until(what: string, condition: () => boolean): Promise<void> {
  const fromMs = performance.now();
  while (!condition()) {
    if (performance.now() - fromMs > 10_000) throw new Error(`not within 10 s: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

function suite(store: Store): void {
  let server: Started;
  beforeAll(async () => void (server = await startWarm(store)));
  afterAll(async () => void (await server?.dispose()));

  it("campaigns, hands over on resign and when a leader is cut off, and shows it all", async () => {
    const [a, b, c] = await Promise.all(
      ["a", "b", "c"].map((who) => client(store, server.url, who)),
    ) as [Client, Client, Client];
    const stop = new AbortController();
    const told: (bigint | null)[] = [];
    const observing = (async () => {
      for await (const leader of c.election.observe({ signal: stop.signal })) {
        told.push(leader?.term ?? null);
      }
    })();
    await until("nobody leads", () => told.length === 1);
    const fence = memoryFence<string>();

    const first = await a.election.campaign();
    // As it would come over the wire, without a signal: the fence alone decides.
    const { name, token, holder, storeId } = first;
    const armed = await fence.arm({ name, token, holder, storeId }, "report");
    await armed.write((cell) => cell.set("first"));
    expect(await b.election.leader()).toMatchObject({
      term: first.term,
      holder: first.holder,
      info: { who: "a" },
    });
    await until("the first term is seen", () => told.includes(first.term));
    const following = b.election.campaign();
    expect(await first.resign()).toBe("released");
    const second = await following;
    expect(second.term > first.term).toBe(true);
    const later = await fence.arm(second, "report");
    await expect(armed.write((cell) => cell.set("late"))).rejects.toThrow(StaleTokenError);
    expect(await later.read((cell) => cell.get())).toBe("first");
    await until("the second term is seen", () => told.includes(second.term));

    const taking = a.election.campaign();
    let revokedMs = Infinity;
    second.signal.addEventListener("abort", () => (revokedMs = performance.now()));
    const cutMs = performance.now();
    b.cut();
    const third = await taking;
    const electedMs = performance.now();
    expect(electedMs - cutMs).toBeLessThan(store.ttlMs + store.slackMs);
    expect(revokedMs).toBeLessThan(electedMs);
    expect(() => second.assertLeading()).toThrow(NotLeaderError);
    expect(third.term > second.term).toBe(true);
    b.heal();
    expect(await second.resign()).toBe("not-held");
    third.assertLeading();
    await until("the third term is seen", () => told.includes(third.term));
    await third.resign();
    const resignedMs = performance.now();
    await until("nobody is seen", () => told.at(-1) === null);
    expect(performance.now() - resignedMs).toBeLessThan(store.ttlMs);
    expect(await b.election.leader()).toBeNull();
    const seen = told.filter((term) => term !== null);
    expect(seen).toEqual([first.term, second.term, third.term]);
    stop.abort();
    await observing;
    await Promise.all([a, b, c].map(({ tenure }) => tenure.close()));
  });
}

for (const store of STORES) describeStore(store, () => suite(store));
