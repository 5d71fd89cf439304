/** Workers of the queue, relays of the outbox and replicas of a schedule, killed at random. */
import { Pool } from "pg";
import { expect, it, onTestFinished } from "vitest";
import { outbox } from "../../src/outbox/open.js";
import { queue } from "../../src/queue/open.js";
import { schedule, type Fire } from "../../src/schedule/open.js";
import { postgresFence } from "../../src/fences/postgres/open.js";
import { sqliteFence } from "../../src/fences/sqlite/open.js";
import { startChild, type Child, type Order } from "./children.js";
import { RACE_MS, RACE_TIMEOUT_MS, RACERS, tell } from "./race-size.js";
import { onStores, type Spot, type Store } from "./stores.js";
import { until } from "./until.js";

const SERIAL = {
  sqlite: "INTEGER PRIMARY KEY AUTOINCREMENT",
  postgres: "BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY",
  mysql: "BIGINT AUTO_INCREMENT PRIMARY KEY",
};

const table = (store: Store, spot: Spot, name: string): string =>
  store.dialect === "sqlite" ? `tenure_${name}` : `${spot.options.schema}.${name}`;

const log = (store: Store, spot: Spot, name: string, columns: string): Promise<unknown> =>
  spot.query(`CREATE TABLE ${name} (at ${SERIAL[store.dialect]}, ${columns})`);

/** Processes that start at once: more only stand in each other's way. */
const STARTING = 8;
const FEWEST_KILLS = 3;

/** Processes of which one is killed and replaced again and again. */
class Workers {
  readonly #orders: (i: number) => readonly Order[];
  readonly living: Child[] = [];
  killed = 0;
  readonly #numbers = new Map<Child, number>();

  constructor(orders: (i: number) => readonly Order[]) {
    this.#orders = orders;
  }

  async start(): Promise<Child> {
    const child = startChild("workers");
    const number = this.#numbers.size;
    this.#numbers.set(child, number);
    for (const order of this.#orders(number)) await child.tell(order);
    this.living.push(child);
    return child;
  }

  /** What its orders were made with. */
  numberOf(child: Child): number {
    return this.#numbers.get(child)!;
  }

  /** Starts so many, not all at once. */
  async startAll(count: number, one: () => Promise<unknown> = () => this.start()): Promise<void> {
    for (let left = count; left > 0; left -= STARTING) {
      await Promise.all(Array.from({ length: Math.min(left, STARTING) }, one));
    }
  }

  /** Kills one. */
  async kill(victim: Child): Promise<void> {
    this.living.splice(this.living.indexOf(victim), 1);
    this.killed += 1;
    await victim.kill();
  }

  /** Kills one and starts another. */
  async replace(victim = this.living[Math.floor(Math.random() * this.living.length)]!) {
    await Promise.all([this.kill(victim), this.start()]);
  }

  async end(): Promise<void> {
    await Promise.all(this.living.map((child) => child.kill()));
  }
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

/** Stops a process outside a transaction: inside one, SQLite lets nobody else write. */
async function freezeIdle(child: Child, spot: Spot): Promise<void> {
  for (;;) {
    child.freeze();
    const isFree = await spot
      .begin(() => undefined)
      .then(
        () => true,
        (error: { code?: string }) => {
          if (error.code !== "SQLITE_BUSY") throw error;
          return false;
        },
      );
    if (isFree) return;
    child.thaw();
    await pause(50 + Math.random() * 100);
  }
}

/** Whether numbers only grow. */
function grows(numbers: readonly (number | bigint)[]): boolean {
  return numbers.every((n, i) => i === 0 || n > numbers[i - 1]!);
}

onStores(
  "with processes that are killed at random,",
  (store) => {
    it(
      "the queue loses no job, repeats none, and keeps the order of each key",
      async () => {
        const spot = await store.fresh();
        const q = await spot.open(queue, { maxTries: 1_000 });
        const facts = "job_key VARCHAR(9), n INTEGER, token BIGINT";
        await log(store, spot, "begun", facts);
        await log(store, spot, "effects", facts);
        const workers = new Workers(() => [
          { do: "open", target: spot.forChildren },
          { do: "work", lease: "1s", maxTries: 1_000 },
        ]);
        await workers.startAll(4);
        const keys = 12;
        let n = 0;
        const endMs = performance.now() + RACE_MS;
        while (performance.now() < endMs || workers.killed < FEWEST_KILLS) {
          for (let i = 0; i < 12; i++, n++) await q.add({ key: `k${n % keys}`, payload: { n } });
          await workers.replace();
        }
        await until(async () => (await q.stats()).done === n, 120_000);
        await workers.end();
        expect(await q.stats()).toMatchObject({ waiting: 0, dead: 0, done: n });
        const effects = await spot.query("SELECT job_key, n, token FROM effects ORDER BY at");
        const begun = await spot.query("SELECT job_key, n, token FROM begun ORDER BY at");
        expect(effects).toHaveLength(n);
        for (let k = 0; k < keys; k++) {
          const ofKey = (rows: typeof effects) => rows.filter((row) => row["job_key"] === `k${k}`);
          expect(ofKey(effects).map((row) => Number(row["n"]))).toEqual(
            Array.from({ length: ofKey(effects).length }, (_, i) => k + i * keys),
          );
          // One at a time: whoever begins has a higher token than all who began before.
          expect(grows(ofKey(begun).map((row) => BigInt(row["token"])))).toBe(true);
          expect(grows(ofKey(effects).map((row) => BigInt(row["token"])))).toBe(true);
        }
        tell(`queue on ${store.name}`, { jobs: n, begun: begun.length, killed: workers.killed });
        expect(workers.killed).toBeGreaterThanOrEqual(FEWEST_KILLS);
      },
      RACE_TIMEOUT_MS,
    );

    it(
      "the outbox publishes all that was committed, in the order of each key, and nothing else",
      async () => {
        const spot = await store.fresh();
        const box = await spot.open(outbox, {});
        await log(
          store,
          spot,
          "published",
          "id VARCHAR(64), msg_key VARCHAR(9), n INTEGER, token BIGINT",
        );
        const relays = new Workers(() => [
          { do: "open", target: spot.forChildren },
          { do: "relay", lease: "400ms" },
        ]);
        await relays.startAll(3);
        const keys = 5;
        const committed = new Map<string, string[]>();
        let isOver = false;
        let n = 0;
        let undone = 0;
        const writer = async (): Promise<void> => {
          while (!isOver) {
            const key = `k${n % keys}`;
            const id = `m${n}`;
            const payload = { n: n++ };
            const rollsBack = Math.random() < 0.3;
            const boom = (): void => {
              if (rollsBack) throw new Error("undone");
            };
            const written = spot.begin((tx) => {
              const done: any = box.write(tx, { key, topic: "t", payload, id });
              return done instanceof Promise ? done.then(boom) : boom();
            });
            const isCommitted = await written.then(
              () => true,
              (error: Error) => {
                if (error.message !== "undone") throw error;
                return false;
              },
            );
            if (isCommitted) committed.set(key, [...(committed.get(key) ?? []), id]);
            else undone += 1;
            await pause(Math.random() * 12);
          }
        };
        const writing = Array.from({ length: 4 }, writer);
        const endMs = performance.now() + RACE_MS;
        while (performance.now() < endMs || relays.killed < FEWEST_KILLS) {
          // Mostly the one that relays.
          const { length } = relays.living;
          await relays.replace(relays.living[Math.random() < 0.7 ? 0 : length - 1]);
        }
        isOver = true;
        await Promise.all(writing);
        await until(async () => (await box.stats()).waiting === 0, 120_000);
        await relays.end();
        const rows = await spot.query("SELECT id, msg_key, n, token FROM published ORDER BY at");
        const wanted = [...committed.values()].flat();
        expect(new Set(rows.map((row) => row["id"]))).toEqual(new Set(wanted));
        expect(undone).toBeGreaterThan(0);
        const order = await spot.query(
          `SELECT id, message_key FROM ${table(store, spot, "outbox_message")} ORDER BY seq`,
        );
        for (let k = 0; k < keys; k++) {
          // Repetitions apart, each key comes in the order of its transactions' commits.
          const first = [
            ...new Set(rows.filter((r) => r["msg_key"] === `k${k}`).map((r) => r["id"])),
          ];
          const inStore = order.filter((r) => r["message_key"] === `k${k}`).map((r) => r["id"]);
          expect(first).toEqual(inStore);
        }
        const repeated = rows.length - wanted.length;
        tell(`outbox on ${store.name}`, {
          messages: wanted.length,
          undone,
          repeated,
          killed: relays.killed,
        });
        expect(relays.killed).toBeGreaterThanOrEqual(FEWEST_KILLS);
      },
      RACE_TIMEOUT_MS,
    );

    it(
      "a schedule has one effect per fire, however many race for it",
      async () => {
        const spot = await store.fresh();
        // The first one makes the store, and is right about the time.
        await spot.open((target, more) =>
          schedule(target, "other", "0 0 1 1 *", () => undefined, more as object),
        );
        await log(store, spot, "effects", "fire_ms BIGINT, token BIGINT");
        const replicas = new Workers((i) => [
          // Some replicas live an hour ahead or behind.
          { do: "open", target: spot.forChildren, wallOffMs: ((i % 3) - 1) * 3_600_000 },
          { do: "keep", name: `r${i}`, lease: "500ms", pauseMs: 150 },
        ]);
        const names = new Map<string, Child>();
        const start = async (): Promise<void> => {
          const child = await replicas.start();
          names.set(`r${replicas.numberOf(child)}`, child);
        };
        // In a file all stand in one queue; the server of these tests has 60 connections.
        const racers = Math.round(RACERS * (store.dialect === "sqlite" ? 0.2 : 0.6));
        await replicas.startAll(racers, start);
        const fires = table(store, spot, "schedule_fire");
        const running = `SELECT worker FROM ${fires} WHERE state = 'running' AND name = 'race'`;
        const endMs = performance.now() + RACE_MS;
        while (performance.now() < endMs || replicas.killed < FEWEST_KILLS) {
          const [run] = await spot.query(running);
          const victim = run === undefined ? undefined : names.get(String(run["worker"]));
          if (victim === undefined || victim.isDead) {
            await pause(5);
            continue;
          }
          await replicas.kill(victim);
          if (replicas.living.length < racers / 2) await start();
          // So that the run after it mostly comes to its end.
          await pause(Math.random() * 1_200);
        }
        // What was killed is run again by those that are left.
        const [survivor, ...rest] = replicas.living;
        await Promise.all(rest.map((child) => child.kill()));
        const [{ last }] = (await spot.query(
          `SELECT max(fire_ms) AS last FROM ${fires} WHERE name = 'race'`,
        )) as [{ last: unknown }];
        await until(async () => {
          const open = await spot.query(`${running} AND fire_ms <= ${String(last)}`);
          return open.length === 0;
        }, 60_000);
        await survivor!.tell({ do: "leave" });
        const rows = await spot.query(
          `SELECT fire_ms, state, tries FROM ${fires} WHERE name = 'race' ORDER BY fire_ms`,
        );
        const times = rows.map((row) => Number(row["fire_ms"]));
        expect(times.map((ms) => (ms - times[0]!) / 1_000)).toEqual(times.map((_, i) => i));
        expect(new Set(rows.map((row) => row["state"]))).toEqual(new Set(["done"]));
        const effects = await spot.query("SELECT fire_ms FROM effects ORDER BY fire_ms");
        expect(effects.map((row) => Number(row["fire_ms"]))).toEqual(times);
        expect(Math.abs(Date.now() - times.at(-1)!)).toBeLessThan(60_000);
        const again = rows.filter((row) => Number(row["tries"]) > 1).length;
        expect(again).toBeGreaterThan(0);
        tell(`schedule on ${store.name}`, {
          fires: rows.length,
          again,
          killed: replicas.killed,
          racers,
        });
      },
      RACE_TIMEOUT_MS,
    );

    it("a run of a schedule that was frozen and wakes has no effect", async () => {
      const spot = await store.fresh();
      const cron = "*/2 * * * * *";
      const old = startChild("workers");
      await old.tell({ do: "open", target: spot.forChildren });
      const begun = old.told("begun");
      await old.tell({ do: "keepSlowly", cron, lease: "3s" });
      await log(store, spot, "effects", "fire_ms BIGINT, token BIGINT");
      await begun;
      await freezeIdle(old, spot);
      const fires: Fire[] = [];
      const work = async (fire: Fire<any>): Promise<void> => {
        fires.push(fire);
        const text = `INSERT INTO effects (fire_ms, token) VALUES (${fire.fireMs}, ${fire.token})`;
        await spot.begin((tx) => {
          if (store.dialect !== "sqlite") return tx.query(text).then(() => fire.complete(tx));
          tx.exec(text);
          return fire.complete(tx);
        });
      };
      const next = await spot.open((target, more) =>
        schedule(target, "job", cron, work, { ...(more as object), overlap: "wait" }),
      );
      await until(async () => (await next.history()).some((one) => one.tries === 2));
      const [again] = fires.filter(({ tries }) => tries === 2);
      old.thaw();
      await until(async () => (await old.tell({ do: "outcome" })).outcome !== "running");
      expect(await old.tell({ do: "outcome" })).toEqual({ outcome: "SupersededError" });
      await next.close();
      const rows = await spot.query("SELECT fire_ms, token FROM effects");
      const ofFire = rows.filter((row) => Number(row["fire_ms"]) === again!.fireMs);
      expect(ofFire.map((row) => BigInt(row["token"]))).toEqual([again!.token]);
      await old.kill();
    });

    it("a frozen worker that wakes writes nothing, mails nothing and completes nothing", async () => {
      const spot = await store.fresh();
      const q = await spot.open(queue, {});
      const box = await spot.open(outbox, {});
      await log(store, spot, "account", "entry VARCHAR(20)");
      await q.add({ key: "account", payload: 1 });
      const old = startChild("workers");
      await old.tell({ do: "open", target: spot.forChildren });
      const { token } = await old.tell({ do: "take", lease: "600ms" });
      old.freeze();
      const job = await until(() => q.take({ lease: "30s" }));
      expect(job.token).toBeGreaterThan(BigInt(token));
      const { url } = spot.forChildren;
      const pool = new Pool({ connectionString: url });
      onTestFinished(() => pool.end());
      const fence = store.dialect === "sqlite" ? sqliteFence(url.slice(7)) : postgresFence(pool);
      const handle: any = await fence.arm(job, "account");
      const text = "INSERT INTO account (entry) VALUES ('first')";
      await handle.write((tx: any) =>
        store.dialect === "sqlite" ? void tx.exec(text) : tx.query(text),
      );
      await spot.begin((tx) => {
        const written: any = box.write(tx, { key: "mail", topic: "mail", payload: "sent" });
        return written instanceof Promise ? written.then(() => job.complete(tx)) : job.complete(tx);
      });
      old.thaw();
      expect(await old.tell({ do: "finish", mail: "sent twice" })).toEqual({
        written: "StaleTokenError",
        completed: "SupersededError",
        left: 0,
      });
      expect(await spot.query("SELECT entry FROM account")).toEqual([{ entry: "first" }]);
      const mails: unknown[] = [];
      const stop = new AbortController();
      const relay = box.relay((m) => void mails.push(m.payload), {
        signal: stop.signal,
        pollEvery: 20,
      });
      await until(async () => (await box.stats()).waiting === 0);
      stop.abort();
      await relay;
      expect(mails).toEqual(["sent"]);
      await old.kill();
    });
  },
  ["sqlite", "pg"],
);
