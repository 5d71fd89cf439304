import { expect, it } from "vitest";
import type { Backend, HolderInfo } from "../../../src/core/backend.js";
import type { Clock } from "../../../src/core/clock.js";
import { Observed } from "../../../src/core/observed.js";
import { Tenure } from "../../../src/core/tenure.js";
import type { FencingToken } from "../../../src/core/token.js";
import type { PartitionGroup } from "../../../src/partitions/contract.js";
import { partitions } from "../../../src/partitions/group.js";
import { withFaults, type FaultyBackend } from "../../../src/testing/faults.js";
import { simulatedRuntime } from "../../../src/testing/simulated-runtime.js";
import { ObservedStore } from "../core/models.js";

const TTL_MS = 1_000;
const COUNT = 12;

/**
 * A way to the store, which lists what nobody gave back: it cannot tell who is dead. Whoever lists
 * has watched what is listed, as on DynamoDB.
 */
function way(
  store: ObservedStore,
  infos: Map<string, HolderInfo | undefined>,
  clock: Clock,
): Backend {
  const inner = store.backend();
  const listed = new Observed(clock);
  return {
    ...inner,
    acquire: async (request, call) => {
      let answer = await inner.acquire(request, call);
      if ("held" in answer) {
        const takeOver = listed.ripe(request.name, answer.held);
        if (takeOver !== undefined) answer = await inner.acquire({ ...request, takeOver }, call);
      }
      if ("grant" in answer) infos.set(request.holder, request.holderInfo);
      return answer;
    },
    async *list(prefix) {
      for (const [name, { holder, token, free, ttlMs, version }] of [...store.records]) {
        if (free || !name.startsWith(prefix)) continue;
        listed.note(name, { holder, token, ttlMs, version: String(version), why: "held" });
        const holderInfo = infos.get(holder);
        const info = holderInfo === undefined ? {} : { holderInfo };
        yield { name, holder, token, why: "held" as const, ...info };
      }
    },
  };
}

it.each([1, 2, 3, 4, 5])("finds the dead where each times them by its own clock (%i)", async (seed) => {
  const sim = simulatedRuntime({ seed });
  const store = new ObservedStore();
  const infos = new Map<string, HolderInfo | undefined>();
  const members: { group: PartitionGroup; faults: FaultyBackend<FencingToken> }[] = [];
  for (let i = 0; i < 3; i++) {
    const faults = withFaults(way(store, infos, sim.runtime.clock), sim.runtime.timers);
    const tenure = await Tenure.open<FencingToken>(faults, sim.runtime);
    const joining = partitions(tenure, "orders", { count: COUNT, ttl: TTL_MS });
    const group = await sim.until(joining);
    group.run(() => undefined).catch(() => undefined);
    members.push({ group, faults });
  }
  const settled = async (some: typeof members): Promise<number> => {
    const fromMs = sim.runtime.clock.monotonicMs();
    const owned = (): number => some.reduce((sum, { group }) => sum + group.owned.length, 0);
    while (owned() < COUNT) {
      const ms = sim.runtime.clock.monotonicMs() - fromMs;
      if (ms > 60_000) throw new Error(`${owned()} of ${COUNT} are owned after a minute`);
      await sim.advance(20);
    }
    return sim.runtime.clock.monotonicMs() - fromMs;
  };
  await settled(members);
  await sim.advance(5 * TTL_MS + seed * 70);
  expect(members.map(({ group }) => group.owned.length)).toEqual([4, 4, 4]);
  const before = new Map(
    members.flatMap(({ group }) => group.owned.map(({ partition, token }) => [partition, token])),
  );
  const [dead, ...living] = members;
  dead!.faults.plan = () => ({ kind: "hang", applied: false });
  const lost = dead!.group.owned.map(({ partition }) => partition);
  // One TTL for all of its leases; and a third of it each until its last renewal is seen, until
  // one member finds out, and until the others see that.
  const tookMs = await settled(living);
  expect(tookMs).toBeGreaterThan(TTL_MS * 0.6);
  expect(tookMs).toBeLessThan(2 * TTL_MS + 300);
  const owned = living.flatMap(({ group }) => group.owned);
  for (const { partition, token } of owned) {
    const isNew = lost.includes(partition);
    expect(token > before.get(partition)!).toBe(isNew);
  }
});
