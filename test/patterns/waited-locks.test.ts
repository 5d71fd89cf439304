/** Leases that end while the statement that needs them waits for a row's lock. */
import { expect, it } from "vitest";
import { SupersededError } from "../../src/core/errors.js";
import { claimRelay, extendRelay, recordOutcome } from "../../src/outbox/messages.js";
import { OUTBOX_TABLES } from "../../src/outbox/tables.js";
import * as line from "../../src/queue/line.js";
import type { Running } from "../../src/queue/terms.js";
import { QUEUE_TABLES } from "../../src/queue/tables.js";
import * as fires from "../../src/schedule/fires.js";
import { SCHEDULE_TABLES } from "../../src/schedule/tables.js";
import { openSqlStore } from "../../src/sql/open.js";
import type { Script } from "../../src/sql/script.js";
import type { SqlStore } from "../../src/sql/store.js";
import type { TablePlan } from "../../src/sql/tables.js";
import { onStores, type Spot } from "./stores.js";
import { until } from "./until.js";

const LEASE_MS = 1_500;
const HOLDER = { holder: "me", worker: "w", leaseMs: LEASE_MS };

type Any = SqlStore<"postgres">;

/** What a lease is needed for, by its row: a script that then answers false, or refuses. */
interface Kind {
  readonly plan: TablePlan;
  readonly row: string;
  /** Makes so many leases; answers for each what it is needed for. */
  lease(store: Any): Promise<readonly Script<unknown>[]>;
}

async function jobs(store: Any, count: number): Promise<Running[]> {
  const running: Running[] = [];
  for (let n = 0; n < count; n++) {
    const job = { queue: "q", key: `k${n}`, id: `id${n}`, payload: "1", delayMs: 0 };
    await store.run("add", () => line.addJob(job));
    const taker = { queue: "q", ...HOLDER, maxTries: 5 };
    const { job: taken } = await store.run("take", () => line.takeJob(taker));
    const { key, seq, token } = taken!;
    running.push({ queue: "q", key, seq, holder: "me", token });
  }
  return running;
}

const KINDS: Record<string, Kind> = {
  "a job": {
    plan: QUEUE_TABLES,
    row: "queue_key",
    lease: async (store) => {
      const [a, b, c, d] = await jobs(store, 4);
      const failure = { reason: "r", retryInMs: 0, maxTries: 5 };
      return [
        line.completeOnce(a!),
        line.completeJob(b!),
        line.extendJob(c!, LEASE_MS),
        line.failJob(d!, failure),
      ];
    },
  },
  "a fire": {
    plan: SCHEDULE_TABLES,
    row: "schedule_fire",
    lease: async (store) => {
      const running = async (name: string): Promise<fires.RunningFire> => {
        const rules = { overlap: "skip", crashed: "leave", maxTries: 1 } as const;
        const claimer = { name, ...HOLDER, ...rules, due: () => [], next: () => null };
        const claiming = await store.run("claim", () => fires.claimThisFire(claimer, 60_000));
        const { fireMs, token } = (claiming as { fire: fires.ClaimedFire }).fire;
        return { name, fireMs, holder: "me", token };
      };
      return [
        fires.finishFire(await running("a"), "done"),
        fires.extendFire(await running("b"), LEASE_MS),
      ];
    },
  },
  "the relay": {
    plan: OUTBOX_TABLES,
    row: "outbox_relay",
    lease: async (store) => {
      const claiming = await store.run("claim", () => claimRelay("me", LEASE_MS));
      const relaying = { holder: "me", token: (claiming as { token: bigint }).token as never };
      return [
        recordOutcome(relaying, { published: [], failed: [] }),
        extendRelay(relaying, LEASE_MS),
      ];
    },
  },
};

onStores(
  "a lease that ends while a lock is waited for",
  (store) => {
    const open = async (spot: Spot, plan: TablePlan): Promise<Any> =>
      spot.open((target, options) => openSqlStore(target, plan, options) as Promise<Any>);

    it.each(Object.entries(KINDS))("counts as over: %s", async (_, { plan, row, lease }) => {
      const spot = await store.fresh();
      const opened = await open(spot, plan);
      const scripts = await lease(opened);
      const table = `${spot.options.schema}.${row}`;
      const before = await spot.query(`SELECT * FROM ${table} ORDER BY 1, 2`);
      // Somebody who changes nothing: a row that has changed is looked at again by itself.
      const other = await spot.openTransaction();
      await other.query(`SELECT 1 FROM ${table} FOR UPDATE`);
      const answers = scripts.map((script) =>
        opened.run("use a lease", () => script).catch((error: unknown) => error),
      );
      await until(async () => {
        const waiting = "SELECT count(*)::integer AS n FROM pg_locks WHERE NOT granted";
        return (await spot.query(waiting))[0]!["n"] >= scripts.length;
      });
      await until(async () => {
        const lasting = `SELECT 1 FROM ${table} WHERE until_ms >
          extract(epoch FROM clock_timestamp()) * 1000`;
        return (await spot.query(lasting)).length === 0;
      });
      await other.rollback();
      for (const answer of await Promise.all(answers)) {
        if (answer !== false) expect(answer).toBeInstanceOf(SupersededError);
      }
      expect(await spot.query(`SELECT * FROM ${table} ORDER BY 1, 2`)).toEqual(before);
    });
  },
  ["pg"],
);
