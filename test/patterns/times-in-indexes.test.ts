/** That Postgres finds what is due by an index, however much is there that is not. */
import { expect, it } from "vitest";
import { next as nextClaim } from "../../src/claims/scripts.js";
import { CLAIM_TABLES } from "../../src/claims/tables.js";
import { sweep as sweepKeys } from "../../src/idempotency/scripts.js";
import { IDEMPOTENCY_TABLES } from "../../src/idempotency/tables.js";
import { readWaiting, sweepMessages } from "../../src/outbox/messages.js";
import { OUTBOX_TABLES } from "../../src/outbox/tables.js";
import { clearAtOnce, takeAtOnce } from "../../src/queue/at-once.js";
import { sweepJobs } from "../../src/queue/overview.js";
import { QUEUE_TABLES } from "../../src/queue/tables.js";
import { itemsToSweep } from "../../src/reservations/scripts.js";
import { RESERVATION_TABLES } from "../../src/reservations/tables.js";
import { openSqlStore } from "../../src/sql/open.js";
import { InsertNew, Look, Shortcut, type Script } from "../../src/sql/script.js";
import { render } from "../../src/sql/statement.js";
import { onStores, type Spot } from "./stores.js";

const PLANS = [
  CLAIM_TABLES,
  IDEMPOTENCY_TABLES,
  OUTBOX_TABLES,
  QUEUE_TABLES,
  RESERVATION_TABLES,
];

/** How Postgres would run the first step of a script. */
async function planOf(spot: Spot, script: Script<unknown>): Promise<string> {
  const { schema } = spot.options;
  const step = script.next([]).value;
  if (step instanceof InsertNew || step instanceof Look) throw new Error("no statement");
  const { tx, rollback } = await spot.openTransaction();
  await tx.query("SET LOCAL enable_seqscan = off");
  const lines: string[] = [];
  const explain = async (text: string, values?: unknown[]): Promise<void> => {
    const { rows } = await tx.query(`EXPLAIN ${text}`, values);
    for (const row of rows) lines.push(row["QUERY PLAN"]);
  };
  if (step instanceof Shortcut) {
    for (const [n, one] of step.statements.entries()) {
      const { text, args } = one.in(schema);
      await tx.query(`PREPARE one${n} AS ${text}`);
      await tx.query("SELECT set_config('tenure.note', '{}', true)");
      await explain(`EXECUTE one${n} (${args.join(", ")})`);
      await tx.query(`DEALLOCATE one${n}`);
    }
  } else {
    const { text, values } = render(step as never, { dialect: "postgres", schema, nowMs: () => 0n });
    await explain(text, [...values]);
  }
  await rollback();
  return lines.join("\n");
}

onStores(
  "what is due",
  (store) => {
    it("is found by an index", async () => {
      const spot = await store.fresh();
      for (const plan of PLANS) {
        await spot.open((target, more) => openSqlStore(target, plan, more));
      }
      const taker = { queue: "q", holder: "h", worker: "w", leaseMs: 1, maxTries: 1 };
      const claimant = { owner: "o", holder: "h", leaseMs: 1, storeId: "s" };
      expect(await planOf(spot, nextClaim(claimant))).toMatch(/Index Cond: .*lease_until <= /);
      expect(await planOf(spot, itemsToSweep())).toMatch(/Index Cond: .*held_until <= /);
      expect(await planOf(spot, sweepKeys())).toMatch(/Index Cond: .*expires <= /);
      expect(await planOf(spot, sweepMessages(1, 1))).toMatch(/Index Cond: .*ended_ms < /);
      expect(await planOf(spot, readWaiting(1))).toMatch(/Index Cond: .*due_ms > /);
      expect(await planOf(spot, sweepJobs("q", 1))).toMatch(/Index Cond: .*ended_ms < /);
      expect(await planOf(spot, takeAtOnce(taker))).toMatch(/Index Cond: .*ready_ms <= /);
      expect(await planOf(spot, clearAtOnce("q"))).toMatch(/Index Cond: .*ready_ms <= /);
    });
  },
  ["pg"],
);
