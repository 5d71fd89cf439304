import { expect, it } from "vitest";
import { partitionsView } from "../../../src/partitions/group.js";
import { seededRandom } from "../core/seeded.js";
import { cut, heal, TTL_MS, World, type Member } from "./members.js";

const COUNT = 40;
const CHURN_MS = 30_000;
const STEP_MS = 100;
/** Much is looked at: some seconds, and more on a busy machine. */
const LIMIT = { timeout: 60_000 };
/** Until somebody looks and acts: at most a TTL while others come and go. */
const UNOWNED_MS = TTL_MS + TTL_MS / 3 + 2 * STEP_MS;

it.each([1, 2])("members join, leave, die and come back at random (%i)", LIMIT, async (seed) => {
  const world = new World();
  const { sim } = world;
  const random = seededRandom(seed);
  const below = (most: number): number => Math.floor(random() * most);
  const watcher = (await world.process()).tenure;
  const living: Member[] = [];
  const away: Member[] = [];
  const gone: Member[] = [];
  const tokens = new Map<number, bigint>();
  const ownedAtMs = new Map<number, number>();
  let longestMs = 0;
  let grants = 0;
  let died = 0;
  for (let i = 0; i < 5; i++) living.push(await world.join({ count: COUNT }));
  await world.settled(living, COUNT);
  const startMs = sim.runtime.clock.monotonicMs();

  const look = async (): Promise<void> => {
    const nowMs = sim.runtime.clock.monotonicMs();
    for await (const partition of held(watcher)) {
      const last = tokens.get(partition.partition) ?? 0n;
      expect(partition.token! >= last).toBe(true);
      if (partition.token! > last) grants++;
      tokens.set(partition.partition, partition.token!);
      ownedAtMs.set(partition.partition, nowMs);
    }
    for (let n = 0; n < COUNT; n++) {
      longestMs = Math.max(longestMs, nowMs - (ownedAtMs.get(n) ?? startMs));
    }
    // Whoever believes to own one, cut off or not, is the only one to believe it.
    const believed = [...living, ...away, ...gone].flatMap(({ group }) => group.owned);
    const numbers = believed.map(({ partition }) => partition);
    expect(new Set(numbers).size).toBe(numbers.length);
  };

  const change = async (): Promise<void> => {
    const dice = random();
    const one = living[below(living.length)]!;
    if (dice < 0.3 && living.length < 9) living.push(await world.join({ count: COUNT }));
    else if (dice < 0.5 && living.length > 2) {
      living.splice(living.indexOf(one), 1);
      gone.push(one);
      await sim.until(one.group.close());
    } else if (dice < 0.75 && living.length > 2) {
      living.splice(living.indexOf(one), 1);
      away.push(one);
      cut(one);
      died++;
    } else if (away.length > 0) {
      const back = away.splice(below(away.length), 1)[0]!;
      heal(back);
      living.push(back);
    }
  };

  while (sim.runtime.clock.monotonicMs() - startMs < CHURN_MS) {
    await change();
    const restMs = random() < 0.2 ? 4 * TTL_MS : below(TTL_MS);
    for (let ms = 0; ms <= restMs; ms += STEP_MS) {
      await sim.advance(STEP_MS);
      await look();
    }
  }
  expect(died).toBeGreaterThan(2);
  expect(grants).toBeGreaterThan(60);
  expect(longestMs).toBeLessThan(UNOWNED_MS);
  for (const { changes } of living) changes.length = 0;
  await world.settled(living, COUNT);
  for (const { changes } of living) changes.length = 0;
  await sim.advance(10 * TTL_MS);
  // Settled is settled.
  expect(living.flatMap(({ changes }) => changes.map(({ type }) => type))).toEqual([]);
});

async function* held(tenure: Member["tenure"]) {
  yield* (await partitionsView(tenure, "orders")).partitions;
}
