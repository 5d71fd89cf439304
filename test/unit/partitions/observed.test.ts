import { expect, it } from "vitest";
import type { Backend, HolderInfo } from "../../../src/core/backend.js";
import { Tenure } from "../../../src/core/tenure.js";
import type { FencingToken } from "../../../src/core/token.js";
import type { PartitionGroup } from "../../../src/partitions/contract.js";
import { partitions } from "../../../src/partitions/group.js";
import { withFaults, type FaultyBackend } from "../../../src/testing/faults.js";
import { simulatedRuntime } from "../../../src/testing/simulated-runtime.js";
import { ObservedStore } from "../core/models.js";

const TTL_MS = 1_000;
const COUNT = 12;

/** A way to the store, which lists what nobody gave back: it cannot tell who is dead. */
function way(store: ObservedStore, infos: Map<string, HolderInfo | undefined>): Backend {
  const inner = store.backend();
  return {
    ...inner,
    acquire: async (request, call) => {
      const answer = await inner.acquire(request, call);
      if ("grant" in answer) infos.set(request.holder, request.holderInfo);
      return answer;
    },
    async *list(prefix) {
      for (const [name, { holder, token, free }] of [...store.records]) {
        if (free || !name.startsWith(prefix)) continue;
        const holderInfo = infos.get(holder);
        const info = holderInfo === undefined ? {} : { holderInfo };
        yield { name, holder, token, why: "held" as const, ...info };
      }
    },
  };
}

it("finds the dead on a store where each times them by its own clock", async () => {
  const sim = simulatedRuntime({ seed: 2 });
  const store = new ObservedStore();
  const infos = new Map<string, HolderInfo | undefined>();
  const members: { group: PartitionGroup; faults: FaultyBackend<FencingToken> }[] = [];
  for (let i = 0; i < 3; i++) {
    const faults = withFaults(way(store, infos), sim.runtime.timers);
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
  await sim.advance(5 * TTL_MS);
  expect(members.map(({ group }) => group.owned.length)).toEqual([4, 4, 4]);
  const before = new Map(
    members.flatMap(({ group }) => group.owned.map(({ partition, token }) => [partition, token])),
  );
  const [dead, ...living] = members;
  dead!.faults.plan = () => ({ kind: "hang", applied: false });
  const lost = dead!.group.owned.map(({ partition }) => partition);
  // To learn that its member is dead, and then that its partitions are: a TTL each.
  const tookMs = await settled(living);
  expect(tookMs).toBeLessThan(3 * TTL_MS + (2 * TTL_MS) / 3 + 500);
  const owned = living.flatMap(({ group }) => group.owned);
  for (const { partition, token } of owned) {
    const isNew = lost.includes(partition);
    expect(token > before.get(partition)!).toBe(isNew);
  }
});
