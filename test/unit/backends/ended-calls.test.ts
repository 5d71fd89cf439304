/** A call that ends while a connection is being made, or waited for, sends nothing on it. */
import { getEventListeners } from "node:events";
import { expect, it } from "vitest";
import { Lane } from "../../../src/backends/sql-lane.js";
import { reserve } from "../../../src/drivers/mysql/pooled.js";
import { runPg } from "../../../src/drivers/postgres/pg.js";
import { runSql } from "../../../src/drivers/postgres/sql.js";
import { gate } from "../core/rig.js";

it("a lane sends nothing for a call that ended while it connected", async () => {
  const coming = gate<never>();
  const sent: string[] = [];
  const connection = {
    isOpen: true,
    query: async (text: string) => void sent.push(text),
    close: async () => undefined,
    destroy: () => void sent.push("destroyed"),
  };
  const lane = new Lane(() => coming.promise);
  const call = new AbortController();
  const asking = lane.query("SELECT 1", [], { signal: call.signal, timeoutMs: 1_000 });
  const over = new Error("over");
  call.abort(over);
  coming.open(connection as never);
  await expect(asking).rejects.toBe(over);
  expect(sent).toEqual([]);
});

it("a client that comes from the pool for a call that has ended goes back unused", async () => {
  const coming = gate<never>();
  const told: unknown[] = [];
  const client = {
    query: async () => void told.push("sent"),
    on: () => undefined,
    off: () => undefined,
    release: (isBroken: boolean) => void told.push({ isBroken }),
  };
  const call = new AbortController();
  const pool = { connect: () => coming.promise } as never;
  const asking = runPg(pool, "SELECT 1", [], { signal: call.signal });
  call.abort();
  coming.open(client as never);
  await expect(asking).rejects.toThrow("no free connection in time");
  expect(told).toEqual([{ isBroken: false }]);
});

const never = new Promise<never>(() => undefined);

// Else the platform warns of a leak from the eleventh call on.
it.each([
  [
    "pg",
    (patience: AbortSignal) => runPg({ connect: () => never } as never, "SELECT 1", [], { patience }),
  ],
  [
    "postgres",
    (patience: AbortSignal) => {
      const query = Object.assign(never, { execute: () => undefined, cancel: () => undefined });
      return runSql({ unsafe: () => query } as never, "SELECT 1", [], { patience });
    },
  ],
  [
    "mysql2",
    (patience: AbortSignal) => reserve({ getConnection: () => undefined } as never, patience),
  ],
])("calls that wait for a connection of %s share one listener to their common limit", async (_library, ask) => {
  const { signal } = new AbortController();
  for (let i = 0; i < 20; i++) void ask(signal);
  for (let turn = 0; turn < 5; turn++) await Promise.resolve();
  expect(getEventListeners(signal, "abort")).toHaveLength(1);
});
