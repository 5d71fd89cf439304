import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { buildSync } from "esbuild";
import cron from "node-cron";
import { describe, expect, it, onTestFinished } from "vitest";
import { platform } from "../../src/platform/index.js";
import { dueFires, scheduleTerms } from "../../src/schedule/options.js";
import {
  cronCoordinator,
  schedule,
  type Fire,
  type Schedule,
  type ScheduleOptions,
} from "../../src/schedule/open.js";
import { cronTimes } from "../../src/drivers/croner/open.js";
import { onStores, type Spot, type Store } from "./stores.js";
import { until } from "./until.js";

const EACH_SECOND = "* * * * * *";
const MINUTE_MS = 60_000;

const begin = (
  spot: Spot,
  work: (fire: Fire<any>) => unknown,
  options: ScheduleOptions = {},
  expression = EACH_SECOND,
): Promise<Schedule<any>> =>
  spot.open((target, more) => schedule(target, "job", expression, work, more), options);

const table = (store: Store, spot: Spot, name: string): string =>
  store.dialect === "sqlite" ? `tenure_${name}` : `${spot.options.schema}.${name}`;

/** Puts the schedule back, as if nobody had been there for so long. */
const away = (store: Store, spot: Spot, ms: number): Promise<unknown> =>
  spot.query(`UPDATE ${table(store, spot, "schedule_name")} SET upto_ms = upto_ms - ${ms}`);

describe("which fires are due", () => {
  const terms = (options: ScheduleOptions) => scheduleTerms(options);
  const noonMs = Date.UTC(2026, 5, 1, 12);

  it("is what the policy for missed ones says", async () => {
    const minutes = await cronTimes("* * * * *", "UTC");
    const due = (options: ScheduleOptions, agoMs: number, nowMs = noonMs + 30_000): number[] =>
      [...dueFires(minutes, terms(options), nowMs - agoMs, nowMs)].map(
        (ms) => (ms - noonMs) / MINUTE_MS,
      );
    expect(due({}, 40_000)).toEqual([0]);
    expect(due({}, 20_000)).toEqual([]);
    expect(due({}, 10 * MINUTE_MS)).toEqual([0]);
    expect(due({ late: "10s" }, 10 * MINUTE_MS)).toEqual([]);
    expect(due({ late: "10s", missed: "last" }, 10 * MINUTE_MS)).toEqual([0]);
    expect(due({ missed: "all" }, 4 * MINUTE_MS)).toEqual([-3, -2, -1, 0]);
    expect(due({ missed: "all", missedLimit: 2 }, 9 * MINUTE_MS)).toEqual([-1, 0]);
    expect(due({}, 10, noonMs)).toEqual([0]);
    expect(due({}, 10, noonMs - 1)).toEqual([]);
    // Those that are in time are not missed, however many they are.
    expect(due({ late: "5m", missedLimit: 1 }, 4 * MINUTE_MS)).toEqual([-3, -2, -1, 0]);
    expect(due({ late: "3h" }, 150 * MINUTE_MS)).toHaveLength(150);
    expect(due({ late: "3h", missed: "last" }, 150 * MINUTE_MS)).toHaveLength(150);
    expect(due({ late: "2m", missed: "all", missedLimit: 1 }, 9 * MINUTE_MS)).toEqual([-1, 0]);
  });

  it("follows the time zone, over the change to summer time", async () => {
    const berlin = await cronTimes("0 9 * * *", "Europe/Berlin");
    const fires = berlin.latest(2, Date.UTC(2026, 2, 29, 12));
    expect(fires).toEqual([Date.UTC(2026, 2, 28, 8), Date.UTC(2026, 2, 29, 7)]);
    expect(berlin.next(fires[1]!)).toBe(Date.UTC(2026, 2, 30, 7));
  });
});

it("says how to install the parser of expressions where it is missing", () => {
  const folder = mkdtempSync(path.join(tmpdir(), "tenure-croner-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const outfile = path.join(folder, "alone.mjs");
  const entry = path.join(import.meta.dirname, "../../src/drivers/croner/open.ts");
  buildSync({ entryPoints: [entry], outfile, bundle: true, format: "esm", external: ["croner"] });
  const url = pathToFileURL(outfile).href;
  const program = `import { cronTimes } from ${JSON.stringify(url)};
    const error = await cronTimes("* * * * *", "UTC").then(() => null, (e) => e);
    console.log(JSON.stringify([error?.name, error?.retryable, error?.message]));`;
  const args = ["--input-type=module", "--eval", program];
  const settings = { cwd: folder, encoding: "utf8", timeout: 60_000 } as const;
  const said = execFileSync(process.execPath, args, settings);
  expect(JSON.parse(said)).toEqual([
    "UnavailableError",
    false,
    "a schedule needs a parser of cron expressions: npm install croner",
  ]);
});

onStores(
  "a schedule",
  (store) => {
    it("begins each fire once over all replicas, never early, with a token that grows", async () => {
      const spot = await store.fresh();
      const fires: (Fire & { readonly atMs: number })[] = [];
      const work = (fire: Fire): void => void fires.push(Object.assign(fire, { atMs: Date.now() }));
      const replicas = await Promise.all(Array.from({ length: 4 }, () => begin(spot, work)));
      await until(() => fires.length >= 3);
      const known = (await replicas[0]!.history()).map(({ fireMs }) => fireMs).reverse();
      await Promise.all(replicas.map((one) => one.close()));
      // None is left out; one that came while the last still ran is skipped.
      expect(known.map((ms) => (ms - known[0]!) / 1_000)).toEqual(known.map((_, i) => i));
      const times = fires.map(({ fireMs }) => fireMs);
      expect(times).toEqual([...new Set(times)].sort());
      for (const [i, { fireMs, atMs, token, tries }] of fires.entries()) {
        // SQLite's clock is exact to 10 ms.
        expect(atMs).toBeGreaterThanOrEqual(fireMs - 15);
        expect(tries).toBe(1);
        if (i > 0) expect(token).toBeGreaterThan(fires[i - 1]!.token);
      }
    });

    it("makes nothing of a replica's clock that is wrong by an hour", async () => {
      const spot = await store.fresh();
      const offByHour = (hours: number) => {
        const real = platform();
        const wallMs = (): number => real.clock.wallMs() + hours * 3_600_000;
        return { ...real, clock: { ...real.clock, wallMs } };
      };
      const fires: Fire[] = [];
      const work = (fire: Fire): void => void fires.push(fire);
      // The first one makes the store.
      const right = await begin(spot, work);
      const wrong = await Promise.all([
        begin(spot, work, { runtime: offByHour(1) }),
        begin(spot, work, { runtime: offByHour(-1) }),
      ]);
      await until(() => fires.length >= 3);
      await Promise.all([right, ...wrong].map((one) => one.close()));
      const times = fires.map(({ fireMs }) => fireMs);
      expect(times).toEqual([...new Set(times)].sort());
      expect(Math.abs(times[0]! - Date.now())).toBeLessThan(MINUTE_MS);
    });

    it("makes up for missed fires, or does not", async () => {
      const policies = [
        { missed: "skip", late: 100 },
        { missed: "last" },
        { missed: "all", missedLimit: 3 },
      ] as const;
      const hourly = "0 0 * * * *";
      const made = policies.map(async (policy) => {
        const spot = await store.fresh();
        await (await begin(spot, () => undefined, policy, hourly)).close();
        await away(store, spot, 26 * 3_600_000);
        const fires: number[] = [];
        const again = await begin(spot, ({ fireMs }) => fires.push(fireMs), policy, hourly);
        if (policy.missed !== "skip") {
          const want = policy.missed === "all" ? 3 : 1;
          await until(() => fires.length === want);
        }
        await again.close();
        return fires;
      });
      const [skipped, last, all] = await Promise.all(made);
      expect(skipped).toEqual([]);
      expect(last).toHaveLength(1);
      expect(all!.map((ms) => ms - all![2]!)).toEqual([-7_200_000, -3_600_000, 0]);
    });

    it("skips fires while a run lasts, or waits, or lets both run", async () => {
      const ends = {
        skip: async (one: Schedule<any>) =>
          (await one.history()).some(({ state }) => state === "skipped"),
        // The next one is due, and could have begun.
        wait: (_: unknown, { fireMs }: Fire) => Date.now() > fireMs + 1_500,
        allow: (_: unknown, __: unknown, begun: readonly number[]) => begun.length >= 2,
      };
      const counts = (["skip", "wait", "allow"] as const).map(async (overlap) => {
        const spot = await store.fresh();
        let running = 0;
        let most = 0;
        const begun: number[] = [];
        const work = async (fire: Fire): Promise<void> => {
          begun.push(fire.fireMs);
          most = Math.max(most, ++running);
          await until(() => ends[overlap](one, fire, begun));
          running -= 1;
        };
        const one = await begin(spot, work, { overlap });
        await until(() => begun.length >= 2);
        await one.close();
        return { most, apart: (begun[1]! - begun[0]!) / 1_000 };
      });
      const [skip, wait, allow] = await Promise.all(counts);
      expect(skip!.most).toBe(1);
      expect(skip!.apart).toBeGreaterThan(1);
      expect(wait).toEqual({ most: 1, apart: 1 });
      expect(allow!.most).toBeGreaterThan(1);
      expect(allow!.apart).toBe(1);
    });

    it("tells of work that throws, keeps the reason, and goes on", async () => {
      const spot = await store.fresh();
      const errors: unknown[] = [];
      const one = await begin(
        spot,
        () => {
          throw new Error("no paper");
        },
        { onError: (error) => errors.push(error) },
      );
      await until(
        async () => (await one.history()).filter((f) => f.state === "failed").length >= 2,
      );
      expect(errors.map(String)).toContain("Error: no paper");
      expect((await one.history({ limit: 1 }))[0]).toMatchObject({ reason: "Error: no paper" });
    });

    it("coordinates tasks of node-cron", async () => {
      const spot = await store.fresh();
      const runs: number[] = [];
      const skipped: unknown[] = [];
      const tasks = await Promise.all(
        [1, 2, 3].map(async () => {
          const runCoordinator = await spot.open(cronCoordinator);
          const work = (context: { date: Date }): void => void runs.push(context.date.getTime());
          const options = { name: "report", distributed: true, runCoordinator };
          const task = cron.schedule(EACH_SECOND, work, options);
          task.on("execution:skipped", (context) => void skipped.push(context.reason));
          return task;
        }),
      );
      await until(() => runs.length >= 2 && skipped.length >= 4);
      for (const task of tasks) await task.destroy();
      const times = runs.map((ms) => Math.floor(ms / 1_000));
      expect(times).toEqual([...new Set(times)]);
      expect(new Set(skipped)).toEqual(new Set(["not-elected"]));
    });

    it("tells what is wrong before it opens anything", async () => {
      const spot = await store.fresh();
      const attempt = (more: object, expression = "* * * * *", name = "job"): Promise<unknown> =>
        schedule(spot.target, name, expression, () => 1, { ...spot.options, ...more });
      for (const [attempted, what] of [
        [attempt({}, "61 * * * *"), /^cron must be a cron expression \(.*minute.*61\), got "61/],
        [attempt({}, "every day"), /^cron must be a cron expression/],
        [attempt({}, "0 0 30 2 *"), /^cron must be a cron expression with a time to come/],
        [attempt({}, "* * * * *", ""), /^name must be/],
        [attempt({ timeZone: "Mars/Base" }), /^timeZone must be a time zone.*"Mars\/Base"$/],
        [attempt({ missed: "some" }), /^missed must be "skip" or "last" or "all", got "some"$/],
        [attempt({ overlap: 1 }), /^overlap must be/],
        [attempt({ lease: "0s" }), /^lease must be/],
        [schedule("mysql://h/d" as any, "j", "* * * * *", () => 1), /^target must be SQLite or/],
        [schedule(spot.target, "j", "* * * * *", 1 as any), /^work must be a function/],
      ] as const) {
        await expect(attempted).rejects.toThrow(what);
      }
    });
  },
  ["sqlite", "pg"],
);
