/** What is told of transactions of which a part may be committed, and of which nothing is. */
import { expect, it } from "vitest";
import { OutcomeUnknownError, UnavailableError } from "../../src/core/errors.js";
import { mysqlFence, type SqlTx } from "../../src/fences/mysql/open.js";
import { rows } from "../../src/rows/open.js";
import { describeOn } from "../servers/find.js";
import { mariadbProgram } from "../servers/mariadb.js";
import { bearer } from "./bearers.js";
import { usePots } from "./mysql-pots.js";

describeOn(mariadbProgram, "a transaction of the MySQL fence whose outcome may be in doubt", () => {
  const rig = usePots();
  const { pots, native, idOf, checkPool } = rig;

  const wrongs: readonly [string, (tx: SqlTx) => Promise<unknown>][] = [
    [
      "a wait for a lock",
      async (tx) => {
        await tx.query("CALL half(0, 1)");
        await tx.query("SET SESSION innodb_lock_wait_timeout = 1");
        await tx.query("UPDATE pot SET v = 'mine' WHERE id = 2");
      },
    ],
    [
      "a wait for a lock, on the library's own connection",
      async (tx) => {
        await native(tx)("CALL half(0, 1)");
        await native(tx)("SET SESSION innodb_lock_wait_timeout = 1");
        await native(tx)("UPDATE pot SET v = 'mine' WHERE id = 2");
      },
    ],
    ["a refusal by the procedure", (tx) => tx.query("CALL half(0, 0)")],
    [
      "time that is over between two statements",
      async (tx) => {
        await tx.query("CALL half(0, 1)");
        await new Promise(() => undefined);
      },
    ],
    [
      "time that is over, in a statement behind another",
      async (tx) => {
        await tx.query("SAVEPOINT s; CALL half(0, 1)").catch(() => undefined);
        await new Promise(() => undefined);
      },
    ],
    ["time that is over within the procedure", (tx) => tx.query("CALL half(60, 1)")],
    [
      "time that is over, on the library's own connection",
      async (tx) => {
        await native(tx)("CALL half(0, 1)");
        await new Promise(() => undefined);
      },
    ],
    [
      "the end of the session",
      async (tx) => {
        const [row] = await tx.query<{ id: number }>("SELECT CONNECTION_ID() AS id");
        await tx.query("CALL half(0, 1)");
        await rig.server.query(`KILL CONNECTION ${row!.id}`);
        await tx.query("UPDATE pot SET v = 'mine' WHERE id = 15");
      },
    ],
    [
      "the end of the session, which the work does not meet",
      async (tx) => {
        const [row] = await tx.query<{ id: number }>("SELECT CONNECTION_ID() AS id");
        await tx.query("CALL half(0, 1)");
        await rig.server.query(`KILL CONNECTION ${row!.id}`);
      },
    ],
  ];

  it.each(wrongs)("tells as unknown what a procedure committed before %s", async (_, wrong) => {
    const inTime = mysqlFence(rig.pool, { transactionMs: 3_000 });
    const handle = await inTime.arm(bearer(5), "a");
    await expect(handle.write(wrong)).rejects.toBeInstanceOf(OutcomeUnknownError);
    expect(await pots(14, 15)).toEqual(["half", "-"]);
    await rig.server.query("UPDATE app.pot SET v = '-' WHERE id = 14");
    const db = await rows(rig.pool, { timeout: 3_000 });
    await expect(db.transaction(wrong)).rejects.toBeInstanceOf(OutcomeUnknownError);
    expect(await pots(14, 15)).toEqual(["half", "-"]);
    await checkPool();
  });

  it("knows that nothing happened where nothing that was sent can commit", async () => {
    const handle = await mysqlFence(rig.pool, { transactionMs: 3_000 }).arm(bearer(5), "a");
    const late = async (tx: SqlTx): Promise<void> => {
      await tx.query("UPDATE pot SET v = 'mine' WHERE id = 14");
      await new Promise(() => undefined);
    };
    await expect(handle.write(late)).rejects.toThrow(/it was rolled back/);
    const db = await rows(rig.pool, { timeout: 3_000 });
    await expect(db.transaction(late)).rejects.toThrow(/it was rolled back/);
    expect(await pots(14)).toEqual(["-"]);
  });

  it("lets a read write nothing, also where its transaction was ended", async () => {
    const handle = await rig.fence.arm(bearer(5), "a");
    const reading = handle.read(async (tx) => {
      const run = native(tx);
      await run("COMMIT");
      await run("UPDATE pot SET v = 'read' WHERE id = 14");
    });
    await expect(reading).rejects.toMatchObject({ family: "unknown", cause: { errno: 1792 } });
    const second = handle.read(async (tx) => {
      const run = native(tx);
      await run("COMMIT; SET SESSION tx_read_only = 0");
      await run("UPDATE pot SET v = 'read' WHERE id = 14");
    });
    await expect(second).rejects.toThrow(/was ended inside the work: .* may be committed/);
    await expect(second).rejects.toBeInstanceOf(OutcomeUnknownError);
    expect(await pots(14)).toEqual(["-"]);
    await checkPool();
    // Nothing of the read is open: the handle goes on with its arming.
    await handle.write((tx) => tx.query("UPDATE pot SET v = 'mine' WHERE id = 14"));
    expect(handle.arm).toBe(1);
  });

  it("knows of a read that was cut off whether it can have done anything", async () => {
    const inTime = mysqlFence(rig.pool, { transactionMs: 3_000 });
    const handle = await inTime.arm(bearer(5), "a");
    const killing = async (tx: SqlTx): Promise<void> => {
      const [row] = await tx.query<{ id: number }>("SELECT CONNECTION_ID() AS id");
      await rig.server.query(`KILL CONNECTION ${row!.id}`);
    };
    await expect(handle.read(killing)).rejects.toBeInstanceOf(UnavailableError);
    const leaving = handle.read(async (tx) => {
      await native(tx)("COMMIT; SET SESSION tx_read_only = 0, autocommit = 1");
      await native(tx)("UPDATE pot SET v = 'after' WHERE id = 14");
      await rig.server.query(`KILL CONNECTION ${String(await idOf(tx))}`);
    });
    await expect(leaving).rejects.toBeInstanceOf(OutcomeUnknownError);
    expect(await pots(14)).toEqual(["after"]);
  });
});
