/** A call that ends while a connection is being made, or waited for, sends nothing on it. */
import { expect, it } from "vitest";
import { Lane } from "../../../src/backends/sql-lane.js";
import { runPg } from "../../../src/drivers/postgres/pg.js";
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
