/** A caller's transaction that ends under an operation: nothing is committed by itself unseen. */
import { createConnection, type Connection } from "mysql2/promise";
import { expect, it, onTestFinished } from "vitest";
import { claims } from "../../src/claims/open.js";
import { OutcomeUnknownError, UnavailableError } from "../../src/core/errors.js";
import { onStores, type Spot } from "./stores.js";

const WAITING = "SELECT 1 FROM information_schema.innodb_trx WHERE trx_state = 'LOCK WAIT'";

/** Two connections, and a statement on the first that ends its transaction by a deadlock. */
async function crossing(spot: Spot): Promise<{ tx: Connection; deadlock(): Promise<void> }> {
  await spot.query("CREATE TABLE account (id INTEGER PRIMARY KEY, v INTEGER)");
  await spot.query("INSERT INTO account SELECT seq, 0 FROM seq_1_to_20");
  const connect = async (): Promise<Connection> => {
    const connection = await createConnection(String(spot.target));
    onTestFinished(() => connection.end());
    return connection;
  };
  const [tx, other] = [await connect(), await connect()];
  return {
    tx,
    async deadlock() {
      await other.query("START TRANSACTION");
      // The server gives up the transaction that has changed fewer rows.
      await other.query("UPDATE account SET v = 100 WHERE id BETWEEN 2 AND 19");
      await tx.query("UPDATE account SET v = 1 WHERE id = 1");
      const crossed = other.query("UPDATE account SET v = 100 WHERE id = 1");
      while ((await spot.query(WAITING)).length === 0) {
        await new Promise((resolve) => setTimeout(resolve, 150));
      }
      const late = tx.query("UPDATE account SET v = 1 WHERE id = 2");
      await expect(late).rejects.toMatchObject({ errno: 1213 });
      await crossed;
      await other.query("COMMIT");
    },
  };
}

onStores(
  "an operation in a caller's transaction that a deadlock ended",
  (store) => {
    it.each(["connection", "function"] as const)("is not sent any more, through a %s", async (how) => {
      const spot = await store.fresh();
      const c: any = await spot.open(claims);
      const { tx, deadlock } = await crossing(spot);
      const run = (text: string, values: unknown[]): Promise<unknown> => tx.query(text, values);
      await tx.query("START TRANSACTION");
      const within = c.within(how === "connection" ? tx : run);
      await within.claim("a", "me");
      await deadlock();
      const late: Promise<unknown> = within.claim("b", "me");
      await expect(late).rejects.toBeInstanceOf(UnavailableError);
      await expect(late).rejects.toThrow(/nothing was sent: the transaction has ended/);
      await tx.query("ROLLBACK");
      for (const name of ["a", "b"]) expect(await c.inspect(name)).toBeNull();
      // The same object goes on in the transaction's second run.
      await tx.query("START TRANSACTION");
      await within.claim("b", "me");
      await tx.query("COMMIT");
      expect(await c.inspect("b")).not.toBeNull();
    });

    it("is told where it was under way", async () => {
      const spot = await store.fresh();
      const c: any = await spot.open(claims);
      const { tx } = await crossing(spot);
      await tx.query("START TRANSACTION");
      const own = tx.execute.bind(tx);
      let ending: Promise<unknown> | undefined;
      // The caller's own statement is sent behind the first one of the claim.
      tx.execute = (statement: any) => {
        const answer: any = own(statement);
        ending ??= tx.query("ROLLBACK");
        return answer;
      };
      const claiming: Promise<unknown> = c.within(tx).claim("a", "me");
      await expect(claiming).rejects.toBeInstanceOf(OutcomeUnknownError);
      await ending;
    });

    it("is asked for one after the other, through a function that answers rows alone", async () => {
      const spot = await store.fresh();
      const [c, second]: any[] = [await spot.open(claims), await spot.open(claims)];
      const { tx, deadlock } = await crossing(spot);
      const run = async (text: string, values: unknown[]): Promise<unknown> => {
        const [rows] = await tx.query(text, values);
        return { rows: Array.isArray(rows) ? rows : [] };
      };
      await expect(c.within(run).claim("a", "me")).rejects.toThrow(/a connection in a transaction/);
      await tx.query("START TRANSACTION");
      const within = c.within(run);
      await Promise.all([
        within.claim("a", "me"),
        within.claim("b", "me"),
        second.within(run).claim("c", "me"),
      ]);
      await deadlock();
      const late = await Promise.allSettled([within.claim("a", "me"), within.claim("b", "me")]);
      for (const one of late) {
        expect(one).toMatchObject({ reason: { message: expect.stringMatching(/has ended/) } });
      }
      for (const name of ["a", "b", "c"]) expect(await c.inspect(name)).toBeNull();
    });

    it("is sent where a library cannot say whether it is in one, and says so in its own way", async () => {
      const spot = await store.fresh();
      const c: any = await spot.open(claims);
      const { tx } = await crossing(spot);
      const sent: string[] = [];
      const run = async (text: string, values: unknown[]): Promise<unknown> => {
        sent.push(text);
        if (/^(SAVEPOINT|RELEASE)/.test(text)) {
          // What MySQL says of a statement that it does not prepare, as Prisma tells it.
          throw Object.assign(new Error("raw query failed"), { meta: { code: "1295" } });
        }
        const [rows] = await tx.execute(text, values as never[]);
        return Array.isArray(rows) ? rows : [];
      };
      await tx.query("START TRANSACTION");
      await c.within(run).claim("a", "me");
      await tx.query("COMMIT");
      expect(await c.inspect("a")).not.toBeNull();
      expect(sent.filter((text) => text.startsWith("SAVEPOINT"))).toHaveLength(1);
    });

    it("goes on behind a savepoint that the caller went back to", async () => {
      const spot = await store.fresh();
      const c: any = await spot.open(claims);
      const { tx } = await crossing(spot);
      const within = c.within(tx);
      await tx.query("START TRANSACTION");
      await tx.query("SAVEPOINT s");
      await within.claim("a", "me");
      await tx.query("ROLLBACK TO s");
      await within.claim("b", "me");
      await tx.query("COMMIT");
      expect(await c.inspect("a")).toBeNull();
      expect(await c.inspect("b")).not.toBeNull();
    });
  },
  ["mysql"],
);
