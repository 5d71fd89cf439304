import { expect, it } from "vitest";
import { SupersededError } from "../../src/core/errors.js";
import { queue, type Queue } from "../../src/queue/open.js";
import { takeJob } from "../../src/queue/line.js";
import { QUEUE_TABLES } from "../../src/queue/tables.js";
import { openSqlStore } from "../../src/sql/open.js";
import { Shortcut, type Script } from "../../src/sql/script.js";
import { sql } from "../../src/sql/statement.js";
import { onStores, type Spot } from "./stores.js";
import { until } from "./until.js";

const open = (spot: Spot, options: object = {}): Promise<Queue<any>> => spot.open(queue, options);

/** A script without shortcuts that waits at a gate after so many statements. */
function* pausedAfter<R>(statements: number, script: Script<R>): Script<R> {
  let next = script.next([]);
  while (next.done !== true && next.value instanceof Shortcut) next = script.next([]);
  for (let n = 1; next.done !== true; n++) {
    const rows = yield next.value;
    if (n === statements) yield sql`SELECT pg_advisory_xact_lock(42)`;
    next = script.next(rows);
  }
  return next.value;
}

function lines(spot: Spot): Promise<unknown[]> {
  const table = spot.dialect === "sqlite" ? "tenure_queue_key" : `${spot.options.schema}.queue_key`;
  return spot.query(`SELECT job_key FROM ${table}`);
}

onStores(
  "the queue",
  (store) => {
    it("runs one job at a time per key, in order, and keys in parallel", async () => {
      const q = await open(await store.fresh());
      for (const payload of [1, 2]) {
        for (const key of ["a", "b"]) await q.add({ key, payload });
      }
      const first = [await q.take(), await q.take()];
      expect(first.map((job) => [job!.key, job!.payload])).toEqual([
        ["a", 1],
        ["b", 1],
      ]);
      const { id, token } = first[0]!;
      const logged = JSON.parse(JSON.stringify(first[0])) as object;
      expect(logged).toMatchObject({ id, key: "a", tries: 1, token: String(token) });
      expect(logged).not.toHaveProperty("payload");
      expect(await q.take()).toBeNull();
      await first[1]!.complete();
      const second = await q.take();
      expect([second!.key, second!.payload]).toEqual(["b", 2]);
      expect(second!.token).toBeGreaterThan(first[1]!.token);
      expect(await q.take()).toBeNull();
      expect(await q.stats()).toMatchObject({ waiting: 3, running: 2, done: 1, dead: 0 });
      await first[0]!.complete();
      await second!.complete();
      const last = await q.take();
      expect(last!.payload).toBe(2);
      await last!.complete();
      expect(await q.take()).toBeNull();
      expect(await q.stats()).toMatchObject({ waiting: 0, running: 0, done: 4, oldestMs: null });
    });

    it("adds an id once, also after it was done, and in the caller's transaction or not at all", async () => {
      const spot = await store.fresh();
      const q = await open(spot);
      const job = { key: "a", payload: { n: 1 }, id: "one" };
      const boom = (): never => {
        throw new Error("boom");
      };
      const undone = spot.begin((tx) => {
        const added: any = q.add(tx, job);
        return added instanceof Promise ? added.then(boom) : boom();
      });
      await expect(undone).rejects.toThrow("boom");
      expect(await q.take()).toBeNull();
      const added = await spot.begin((tx) => q.add(tx, job) as any);
      expect(added).toEqual({ id: "one", added: true });
      expect(await q.add(job)).toEqual({ id: "one", added: false });
      await (await q.take())!.complete();
      expect(await q.add(job)).toEqual({ id: "one", added: false });
      expect(await q.take()).toBeNull();
    });

    it("completes in the transaction of the effect: both or neither", async () => {
      const spot = await store.fresh();
      const q = await open(spot);
      await spot.query("CREATE TABLE effects (id INTEGER PRIMARY KEY)");
      await q.add({ key: "a", payload: 1 });
      const job = (await q.take())!;
      const effect = (fails: boolean) => (tx: any) => {
        const text = "INSERT INTO effects (id) VALUES (1)";
        const boom = (): void => {
          if (fails) throw new Error("boom");
        };
        if (store.dialect === "sqlite") {
          tx.exec(text);
          void job.complete(tx);
          return boom();
        }
        const insert = store.name === "postgres" ? tx.unsafe(text) : tx.query(text);
        return insert.then(() => job.complete(tx)).then(boom);
      };
      await expect(spot.begin(effect(true))).rejects.toThrow("boom");
      expect(await q.stats()).toMatchObject({ waiting: 1, done: 0 });
      await spot.begin(effect(false));
      expect(await q.stats()).toMatchObject({ waiting: 0, done: 1 });
      expect(await spot.query("SELECT count(*) AS n FROM effects")).toHaveLength(1);
      // The answer may have been lost: asking again without an effect is no error, with one it is.
      await job.complete();
      await expect(spot.begin(effect(false))).rejects.toThrow();
    });

    it("refuses whoever's lease is over, and takes the job again with a higher token", async () => {
      const q = await open(await store.fresh());
      await q.add({ key: "a", payload: 1 });
      const old = (await q.take({ lease: 200, worker: "w1" }))!;
      await until(() => old.remaining() === 0);
      const next = await until(() => q.take({ worker: "w2" }));
      expect(next).toMatchObject({ key: "a", tries: 2 });
      expect(next.token).toBeGreaterThan(old.token);
      const refused = await old.complete().catch((error: unknown) => error);
      expect(refused).toBeInstanceOf(SupersededError);
      expect(refused).toMatchObject({ resource: "jobs/a", mark: { token: next.token } });
      await expect(old.extend()).rejects.toThrow(/has ended/);
      await expect(old.fail()).rejects.toThrow(SupersededError);
      expect(old.signal.aborted).toBe(true);
      await next.complete();
    });

    it("refuses a late completion although nobody has taken the job since", async () => {
      const q = await open(await store.fresh());
      await q.add({ key: "a", payload: 1 });
      const old = (await q.take({ lease: 150 }))!;
      await until(async () => (await q.stats()).running === 0);
      await expect(old.complete()).rejects.toThrow(/lease is over/);
      expect(await q.take()).not.toBeNull();
    });

    it("holds a key back while its first job is delayed or to be tried again", async () => {
      const spot = await store.fresh();
      const q = await open(spot);
      const { schema } = spot.options;
      const table = (name: string): string =>
        schema === undefined ? `tenure_${name}` : `${schema}.${name}`;
      const hourLater = async (): Promise<void> => {
        await spot.query(`UPDATE ${table("queue_job")} SET due_ms = due_ms - 3600000`);
        await spot.query(`UPDATE ${table("queue_key")} SET ready_ms = ready_ms - 3600000`);
      };
      await q.add({ key: "a", payload: 1, delay: "1h" });
      await q.add({ key: "a", payload: 2 });
      expect(await q.take()).toBeNull();
      await hourLater();
      const job = (await q.take())!;
      expect(job.payload).toBe(1);
      expect(await job.fail({ retryIn: "1h", reason: "not yet" })).toBe("retry");
      expect(await q.take()).toBeNull();
      await hourLater();
      expect(await q.take()).toMatchObject({ payload: 1, tries: 2 });
    });

    it("sets a poison job aside, goes on with its key, and revives it", async () => {
      const q = await open(await store.fresh(), { maxTries: 2 });
      await q.add({ key: "a", payload: "poison", id: "p" });
      await q.add({ key: "a", payload: "good" });
      const errors: unknown[] = [];
      const stop = new AbortController();
      const done: unknown[] = [];
      let heals = false;
      const work = q.work(
        async (job) => {
          if (job.payload === "poison" && !heals) {
            await job.fail({ retryIn: 1, reason: "cannot digest" });
            if (job.tries === 1) return;
            throw new Error("told");
          }
          done.push(job.payload);
        },
        { signal: stop.signal, pollEvery: 20, onError: (error) => errors.push(error) },
      );
      await until(() => done.length === 1);
      expect(done).toEqual(["good"]);
      expect(errors.map(String)).toEqual(["Error: told"]);
      expect(await q.dead()).toMatchObject([
        { id: "p", key: "a", payload: "poison", tries: 2, reason: "cannot digest" },
      ]);
      expect(await q.stats()).toMatchObject({ dead: 1, waiting: 0 });
      expect(await q.revive("other")).toBe(false);
      heals = true;
      expect(await q.revive("p")).toBe(true);
      await until(() => done.length === 2);
      expect(done).toEqual(["good", "poison"]);
      stop.abort();
      await work;
      expect(await q.dead()).toEqual([]);
    });

    it("sets a job aside that kills each of its workers", async () => {
      const q = await open(await store.fresh(), { maxTries: 2 });
      await q.add({ key: "a", payload: 1, id: "x" });
      for (let i = 0; i < 2; i++) await until(() => q.take({ lease: 100 }));
      await until(async () => (await q.take()) === null && (await q.stats()).dead === 1);
      expect((await q.dead())[0]!.reason).toMatch(/taken too often/);
    });

    it("keeps a long job by extending it, and tries again when its transaction is undone", async () => {
      const spot = await store.fresh();
      const q = await open(spot);
      await q.add({ key: "a", payload: 1 });
      const tokens: bigint[] = [];
      const stop = new AbortController();
      const work = q.work(
        async (job) => {
          tokens.push(job.token);
          if (tokens.length > 1) return;
          // Twice its lease.
          const end = performance.now() + 2_000;
          await until(() => performance.now() > end);
          expect(job.signal.aborted).toBe(false);
          const undone = spot.begin((tx) => {
            const completed: any = job.complete(tx);
            const boom = (): void => {
              throw new Error("undone");
            };
            return completed instanceof Promise ? completed.then(boom) : boom();
          });
          await undone.catch(() => undefined);
        },
        { signal: stop.signal, lease: 1_000, pollEvery: 20 },
      );
      await until(async () => (await q.stats()).waiting === 0, 15_000);
      stop.abort();
      await work;
      expect(tokens).toHaveLength(2);
      expect(tokens[1]).toBeGreaterThan(tokens[0]!);
    });

    it("loses no job of a key that is added to while its line becomes empty", async () => {
      const spot = await store.fresh();
      const q = await open(spot);
      const other = await open(spot);
      let added = 0;
      const stop = new AbortController();
      const seen: unknown[] = [];
      const work = other.work((job) => void seen.push(job.payload), {
        signal: stop.signal,
        pollEvery: 10,
        concurrency: 4,
      });
      for (; added < 60; added++) await q.add({ key: `k${added % 2}`, payload: added });
      await until(async () => (await q.stats()).done === added, 20_000);
      stop.abort();
      await work;
      expect(seen).toHaveLength(added);
      for (const rest of [0, 1]) {
        const ofKey = seen.filter((n) => Number(n) % 2 === rest);
        expect(ofKey).toEqual([...ofKey].sort((a, b) => Number(a) - Number(b)));
      }
      await until(async () => (await other.take()) === null);
      expect(await lines(spot)).toEqual([]);
    });

    it("does not let keys that are new go before one that waits", async () => {
      const q = await open(await store.fresh());
      for (const payload of [1, 2]) await q.add({ key: "waits", payload });
      await (await q.take())!.complete();
      // More than a step of any store's clock.
      const from = performance.now();
      await until(async () => performance.now() - from > 25);
      await q.add({ key: "new", payload: 3 });
      expect(await q.take()).toMatchObject({ key: "waits", payload: 2 });
      expect(await q.take()).toMatchObject({ key: "new", payload: 3 });
    });

    it("leaves no line behind, however its last job ended", async () => {
      const spot = await store.fresh();
      const q = await open(spot, { maxTries: 1 });
      for (const key of ["a", "b", "c"]) await q.add({ key, payload: 1 });
      const jobs = [(await q.take())!, (await q.take())!, (await q.take())!];
      const ending = await spot.openTransaction();
      await jobs[0]!.complete(ending.tx);
      await ending.commit();
      await jobs[1]!.fail();
      await jobs[2]!.complete();
      await q.add({ key: "d", payload: 2 });
      await (await q.take())!.complete();
      expect(await q.take()).toBeNull();
      expect(await lines(spot)).toEqual([]);
      await q.add({ key: "a", payload: 3 });
      expect(await q.take()).toMatchObject({ key: "a", payload: 3 });
    });

    it("does not let an open transaction that adds hold up the running job or lose its own", async () => {
      const spot = await store.fresh();
      if (spot.dialect === "sqlite") return; // One writer at a time: nothing to be held up.
      const q = await open(spot);
      await q.add({ key: "a", payload: 1 });
      const job = (await q.take())!;
      const busy = await spot.openTransaction();
      await q.add(busy.tx, { key: "a", payload: 2 });
      await job.extend();
      await job.complete();
      expect(await q.take()).toBeNull();
      await busy.commit();
      expect((await until(() => q.take())).payload).toBe(2);
    });

    it("does not forget a line to which a job came after it was found empty", async () => {
      if (store.name !== "pg") return; // On SQLite nothing can come in between.
      const spot = await store.fresh();
      const q = await open(spot);
      await q.add({ key: "a", payload: 1 });
      const ending = await spot.openTransaction();
      await (await q.take())!.complete(ending.tx);
      await ending.commit();
      const s = await spot.open((target, more) => openSqlStore(target, QUEUE_TABLES, more));
      const gate = await spot.openTransaction();
      await gate.query("SELECT pg_advisory_xact_lock(42)");
      const taker = { queue: "jobs", holder: "h", worker: "w", leaseMs: 30_000, maxTries: 5 };
      const taking = s.run("take a job", () => pausedAfter(2, takeJob(taker)));
      const waits = "SELECT 1 AS w FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
      await until(async () => (await spot.query(waits)).length === 1);
      await q.add({ key: "a", payload: 2 });
      await gate.rollback();
      expect((await taking).job).toMatchObject({ key: "a", payload: "2" });
    });

    it("forgets jobs that were done long ago", async () => {
      const spot = await store.fresh();
      const q = await open(spot, { keepDone: 1 });
      await q.add({ key: "a", payload: 1, id: "x" });
      await (await q.take())!.complete();
      expect((await q.stats()).done).toBe(1);
      await until(async () => {
        // Each sweeps with its first take, which may come within the millisecond of the end.
        const later = await open(spot, { keepDone: 1 });
        expect(await later.take()).toBeNull();
        return (await q.stats()).done === 0;
      });
    });

    it("tells what is wrong before it writes", async () => {
      const spot = await store.fresh();
      const q = await open(spot);
      const cycle: Record<string, unknown> = {};
      cycle["self"] = cycle;
      for (const [job, message] of [
        [{ key: "", payload: 1 }, /^key must be 1 to 512 bytes/],
        [{ key: "a" }, /^payload must be JSON/],
        [{ key: "a", payload: { at: 1n } }, /^payload.at must be JSON.*1n$/],
        [{ key: "a", payload: { at: NaN } }, /^payload.at must be JSON.*NaN$/],
        [{ key: "a", payload: () => 1 }, /^payload must be JSON/],
        [{ key: "a", payload: cycle }, /^payload.self must be without a cycle/],
        [{ key: "a", payload: "x".repeat(1_048_576) }, /^payload must be at most 1048576 bytes of JSON/],
        [{ key: "a", payload: 1, delay: -1 }, /^delay must be/],
        [{ key: "a", payload: 1, delays: 1 }, /^delays must be left out/],
        [{ key: "x".repeat(510), payload: 1 }, /^key must be 1 to 512 bytes/],
      ] as const) {
        const adding = async (): Promise<unknown> => q.add(job as any);
        await expect(adding()).rejects.toThrow(message);
      }
      const within = async (): Promise<unknown> =>
        q.add(undefined as any, { key: "a", payload: 1 });
      await expect(within()).rejects.toThrow(TypeError);
      await expect(q.take({ lease: 1 })).rejects.toThrow(/^lease must be at least 100ms/);
      await expect(q.work({} as any)).rejects.toThrow(/^handler must be a function/);
      await expect(q.work(() => 1, { concurrency: 0 })).rejects.toThrow(/^concurrency must be/);
      expect(await q.stats()).toMatchObject({ waiting: 0 });
      await expect(queue(spot.target, { name: "a/b" })).rejects.toThrow(/^name must be/);
      await expect(queue("mysql://u:secret@h/d" as any)).rejects.toThrow(
        /^target must be SQLite or Postgres for a queue, got "mysql:…"$/,
      );
    });
  },
  ["sqlite", "pg", "postgres"],
);
