/**
 * Scenario 40 with real processes on a real store: leaders that are killed one after the other,
 * and observers whose connections break. Eight leaders, or as many as an hour holds with
 * `TENURE_CHURN_MINUTES=60`.
 */
import { expect, it } from "vitest";
import { election } from "../../../src/election/election.js";
import { describeOn } from "../../servers/find.js";
import { redisProgram, startRedis } from "../../servers/redis.js";
import { bench, until, waitersOf } from "../redis/bench.js";
import { startChild, type Child } from "./children.js";

const TTL_MS = 1_000;
const LEADERS = 8;
const CANDIDATES = 3;
const OBSERVERS = 2;
/** On top of the TTL, for a machine that is busy: what is measured is printed. */
const BOUND_MS = 60_000;
const minutes = Number(process.env["TENURE_CHURN_MINUTES"] ?? 0);
const LIMIT_MS = minutes * 60_000 + 240_000;
const told = minutes > 0 ? `for ${minutes} minutes` : `${LEADERS} times`;

interface Candidate {
  readonly nth: number;
  readonly child: Child;
  readonly elected: Promise<{ readonly nth: number; readonly term: bigint }>;
}

describeOn(redisProgram, "leader-churn", () => {
  const { server, proxy, tenure } = bench();

  const title = `kills the leader ${told}: terms rise, observers never go back, nobody starves`;
  it(title, { timeout: LIMIT_MS }, async () => {
    const store = await server(startRedis());
    const locks = await tenure(store.port, { fair: true });
    const standing: Candidate[] = [];
    let born = 0;
    const stand = async (): Promise<void> => {
      const before = await waitersOf(locks, "leader");
      const nth = ++born;
      const child = startChild("lead", store.url, String(TTL_MS));
      const elected = child.says().then(({ term }) => ({ nth, term: BigInt(String(term)) }));
      // One that is killed before its turn says nothing.
      elected.catch(() => undefined);
      standing.push({ nth, child, elected });
      // The first waits for nobody; those after it must not overtake it while it starts.
      if (nth === 1) await elected;
      else {
        const isIn = async (): Promise<boolean> => (await waitersOf(locks, "leader")) > before;
        await until(`candidate ${nth} to stand`, isIn, BOUND_MS);
      }
    };
    const over = new AbortController();
    const seen: (bigint | null)[][] = [];
    const links = await Promise.all(
      Array.from({ length: OBSERVERS }, async () => {
        const link = await proxy(store.port);
        const own = await tenure(link.port, { fair: true });
        const terms: (bigint | null)[] = [];
        seen.push(terms);
        const watching = (async (): Promise<void> => {
          for await (const leader of election(own, "leader").observe({ signal: over.signal })) {
            terms.push(leader?.term ?? null);
          }
        })();
        // What it fails with shows in what it has seen.
        watching.catch(() => undefined);
        return { link, watching };
      }),
    );
    for (let nth = 0; nth < CANDIDATES; nth++) await stand();
    const terms: bigint[] = [];
    const order: number[] = [];
    const gaps: number[] = [];
    const untilMs = performance.now() + minutes * 60_000;
    let leader = await Promise.race(standing.map(({ elected }) => elected));
    while (terms.length < LEADERS || performance.now() < untilMs) {
      terms.push(leader.term);
      order.push(leader.nth);
      // One observer misses this change, or learns of it late.
      links[terms.length % OBSERVERS]!.link.cut();
      const place = standing.findIndex(({ nth }) => nth === leader.nth);
      const [{ child }] = standing.splice(place, 1) as [Candidate];
      const killedMs = performance.now();
      await child.kill();
      leader = await Promise.race(standing.map(({ elected }) => elected));
      gaps.push(performance.now() - killedMs);
      await stand();
    }
    const last = leader.term;
    const isSeen = (): boolean => seen.every((own) => own.at(-1) === last);
    await until("the observers to see the last", isSeen, BOUND_MS);
    over.abort();
    for (const { watching } of links) await watching.catch(() => undefined);

    expect(terms.every((term, i) => i === 0 || term > terms[i - 1]!)).toBe(true);
    // In the order in which they stood: nobody starves.
    expect(order).toEqual([...order].sort((a, b) => a - b));
    const known = new Set([...terms, last]);
    for (const own of seen) {
      const shown = own.filter((term) => term !== null);
      expect(shown.every((term) => known.has(term))).toBe(true);
      expect(shown.every((term, i) => i === 0 || term >= shown[i - 1]!)).toBe(true);
    }
    gaps.sort((a, b) => a - b);
    const p99 = gaps[Math.ceil(gaps.length * 0.99) - 1]!;
    console.log(
      `${gaps.length} leaders killed; nobody led for ${Math.round(p99)} ms (p99), TTL ${TTL_MS} ms`,
    );
    expect(gaps.at(-1)!).toBeLessThan(TTL_MS + BOUND_MS);
  });
});
