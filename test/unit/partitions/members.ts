/** Members of one group on one simulated machine, each with its own way to one store. */
import { memoryBackend } from "../../../src/backends/memory/index.js";
import { MemoryStore } from "../../../src/backends/memory/store.js";
import type { Backend } from "../../../src/core/backend.js";
import { UnavailableError } from "../../../src/core/errors.js";
import { Tenure } from "../../../src/core/tenure.js";
import type { FencingToken } from "../../../src/core/token.js";
import type { PartitionChange, PartitionGroup } from "../../../src/partitions/contract.js";
import { partitions, partitionsView } from "../../../src/partitions/group.js";
import type { PartitionsOptions } from "../../../src/partitions/options.js";
import { withFaults, type FaultyBackend } from "../../../src/testing/faults.js";
import { simulatedRuntime, type Simulation } from "../../../src/testing/simulated-runtime.js";

export const TTL_MS = 1_000;

/** The way of one process to the store. */
interface Way {
  isOpen: boolean;
  /** Sent while the way was open. */
  requests: number;
  faults: FaultyBackend<FencingToken>;
}

/** One process. */
export interface Member {
  readonly group: PartitionGroup;
  readonly tenure: Tenure;
  readonly way: Way;
  readonly changes: PartitionChange[];
  readonly errors: unknown[];
}

/** A store, and processes that come to it. */
export class World {
  readonly sim: Simulation = simulatedRuntime({ seed: 5 });
  readonly store: MemoryStore = new MemoryStore({ runtime: this.sim.runtime });
  readonly members: Member[] = [];
  /** Called before each list of anybody. */
  onList: () => void = () => undefined;

  /** A process with its own way to the store. */
  async process(): Promise<Pick<Member, "tenure" | "way">> {
    const { runtime } = this.sim;
    const inner = memoryBackend({ runtime, store: this.store });
    const onList = (): void => this.onList();
    const way: Way = { isOpen: true, requests: 0, faults: undefined! };
    const lists: Backend = {
      ...inner,
      async *list(prefix, call) {
        way.requests++;
        onList();
        if (!way.isOpen) throw new UnavailableError("cut off");
        yield* inner.list(prefix, call);
      },
    };
    way.faults = withFaults(lists, runtime.timers, () => {
      way.requests++;
      return undefined;
    });
    return { tenure: await Tenure.open<FencingToken>(way.faults, runtime), way };
  }

  /** Joins, while others may be joining: time has to be let pass by the caller. */
  async start(options: Partial<PartitionsOptions> = {}): Promise<Member> {
    const { tenure, way } = await this.process();
    const changes: PartitionChange[] = [];
    const errors: unknown[] = [];
    const group = await partitions(tenure, "orders", {
      count: 64,
      ttl: TTL_MS,
      drain: 300,
      onChange: (change) => void changes.push(change),
      onError: (error) => void errors.push(error),
      ...options,
    });
    const member = { group, tenure, way, changes, errors };
    this.members.push(member);
    return member;
  }

  join(options: Partial<PartitionsOptions> = {}): Promise<Member> {
    return this.sim.until(this.start(options));
  }

  /** Lets time pass until the condition holds. @throws Error after a simulated minute. */
  async until(what: string, condition: () => boolean): Promise<number> {
    const startMs = this.sim.runtime.clock.monotonicMs();
    while (!condition()) {
      const ms = this.sim.runtime.clock.monotonicMs() - startMs;
      if (ms > 60_000) throw new Error(`not within a minute: ${what}`);
      await this.sim.advance(10);
    }
    return this.sim.runtime.clock.monotonicMs() - startMs;
  }

  /** How many partitions each of these owns. */
  shares(members: readonly Member[] = this.members): number[] {
    return members.map(({ group }) => group.owned.length);
  }

  /** Until these share everything evenly. */
  settled(members: readonly Member[], count = 64): Promise<number> {
    return this.until(`${count} shared by ${members.length}`, () => {
      const shares = this.shares(members);
      const isAll = shares.reduce((sum, share) => sum + share, 0) === count;
      return isAll && Math.max(...shares) - Math.min(...shares) <= 1;
    });
  }

  /** Owners by the store. */
  async view(): ReturnType<typeof partitionsView> {
    const { tenure } = await this.process();
    return this.sim.until(partitionsView(tenure, "orders"));
  }
}

/** Nothing of this process reaches the store any more, as if it were dead. */
export function cut({ way }: Member): void {
  way.isOpen = false;
  way.faults.plan = () => ({ kind: "hang", applied: false });
}

/** The store answers this process that it cannot serve. */
export function refuse({ way }: Member): void {
  way.isOpen = false;
  way.faults.plan = () => ({ kind: "refuse" });
}

/** The way to the store is whole again. */
export function heal({ way }: Member): void {
  way.isOpen = true;
  way.faults.plan = () => undefined;
}
