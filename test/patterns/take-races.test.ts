/**
 * A take that sees jobs as they were: between its view of them and its lock of their line, others
 * take the same job, and end it.
 */
import { Pool } from "pg";
import { expect, it, onTestFinished } from "vitest";
import { queue, type Job } from "../../src/queue/open.js";
import { onStores } from "./stores.js";
import { until } from "./until.js";

const GATE = 77;

onStores(
  "a take whose view is old",
  (store) => {
    /**
     * One that takes and stops there, and one that goes through: a statement that changes lines
     * waits at a gate before it locks any, unless its session holds the gate.
     */
    async function two() {
      const spot = await store.fresh();
      const { schema } = spot.options;
      const q = await spot.open(queue);
      for (const payload of [1, 2]) await q.add({ key: "k", payload, id: `id ${payload}` });
      // The counter of the key is made with its first token.
      await (await q.take())!.fail({ retryIn: 0 });
      await spot.query(`CREATE FUNCTION ${schema}.gate() RETURNS trigger LANGUAGE plpgsql
        AS 'BEGIN PERFORM pg_advisory_xact_lock(${GATE}); RETURN NULL; END'`);
      await spot.query(`CREATE TRIGGER gate BEFORE UPDATE ON ${schema}.queue_key
        FOR EACH STATEMENT EXECUTE FUNCTION ${schema}.gate()`);
      const session = new Pool({ connectionString: store.server().url, max: 1 });
      onTestFinished(() => session.end());
      await session.query(`SELECT pg_advisory_lock(${GATE})`);
      const other = await queue(session, spot.options);
      const taking: Promise<Job | null> = q.take();
      await until(async () => {
        const stopped = "SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
        return (await spot.query(stopped)).length === 1;
      });
      const open = (): void => void session.query(`SELECT pg_advisory_unlock(${GATE})`);
      return { take: () => taking, other, open };
    }

    /** The deletion of a line stops, when it has looked for jobs in it, until `open` is called. */
    async function closing() {
      const spot = await store.fresh();
      const { schema } = spot.options;
      const q = await spot.open(queue);
      await q.add({ key: "k", payload: 1 });
      const job = (await q.take())!;
      await spot.query(`CREATE FUNCTION ${schema}.gate() RETURNS trigger LANGUAGE plpgsql
        AS 'BEGIN PERFORM pg_advisory_xact_lock(${GATE}); RETURN NULL; END'`);
      await spot.query(`CREATE TRIGGER gate BEFORE DELETE ON ${schema}.queue_key
        FOR EACH STATEMENT EXECUTE FUNCTION ${schema}.gate()`);
      const session = new Pool({ connectionString: store.server().url, max: 1 });
      onTestFinished(() => session.end());
      await session.query(`SELECT pg_advisory_lock(${GATE})`);
      const waits = (locktype: string) => async () => {
        const waiting = `SELECT 1 FROM pg_locks WHERE locktype = '${locktype}' AND NOT granted`;
        return (await spot.query(waiting)).length === 1;
      };
      /** Adds a job while a line is being deleted, and lets that go on once the job must wait. */
      const addMeanwhile = async (): Promise<void> => {
        await until(waits("advisory"));
        const adding = q.add({ key: "k", payload: 2 });
        await until(waits("transactionid"));
        await session.query(`SELECT pg_advisory_unlock(${GATE})`);
        await adding;
      };
      return { spot, q, job, addMeanwhile };
    }

    it("loses no job that is added while the line goes with its last", async () => {
      const { q, job, addMeanwhile } = await closing();
      await Promise.all([job.complete(), addMeanwhile()]);
      expect(await q.take()).toMatchObject({ payload: 2, tries: 1 });
    });

    it("nor one that is added while a line is cleared that was left over", async () => {
      const { spot, q, job, addMeanwhile } = await closing();
      const ending = await spot.openTransaction();
      await job.complete(ending.tx);
      await ending.commit();
      const [taken] = await Promise.all([q.take(), addMeanwhile()]);
      expect(taken ?? (await q.take())).toMatchObject({ payload: 2, tries: 1 });
    });

    it("does not take a job that is done", async () => {
      const { take, other, open } = await two();
      const job = (await other.take())!;
      expect(job).toMatchObject({ payload: 1, tries: 2 });
      await job.complete();
      open();
      expect(await take()).toMatchObject({ payload: 2, tries: 1 });
      expect(await other.stats()).toMatchObject({ waiting: 1, running: 1, done: 1 });
    });

    it("nor one that another holds", async () => {
      const { take, other, open } = await two();
      expect(await other.take()).toMatchObject({ payload: 1, tries: 2 });
      open();
      expect(await take()).toBeNull();
      expect(await other.stats()).toMatchObject({ waiting: 2, running: 1 });
    });

    it("nor one that was given back for later, or set aside", async () => {
      const { take, other, open } = await two();
      await (await other.take())!.fail({ retryIn: "1h" });
      open();
      expect(await take()).toBeNull();
      expect(await other.stats()).toMatchObject({ waiting: 2, running: 0 });
    });

    it("and counts a try that came between", async () => {
      const { take, other, open } = await two();
      const before = (await other.take())!;
      await before.fail({ retryIn: 0 });
      open();
      const job = (await take())!;
      expect(job).toMatchObject({ payload: 1, tries: 3 });
      expect(job.token).toBeGreaterThan(before.token);
    });
  },
  ["pg"],
);
