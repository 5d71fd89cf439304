/**
 * Processes that share partitions, and are killed, frozen and joined by others at random. Each adds
 * to the counters of its partitions, in steps that lose an update whenever two work at once and
 * nothing stops the one that is late. For longer, and with more of them: PARTITIONS_MS=180000.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import Database from "better-sqlite3";
import { expect, it } from "vitest";
import { connect } from "../../src/connect.js";
import { partitions, partitionsView } from "../../src/partitions/group.js";
import { until } from "../patterns/until.js";
import { describeOn } from "../servers/find.js";
import { readyTable } from "../conformance/dynamodb-subject.js";
import { dynaliteProgram, startDynamodb } from "../servers/dynamodb.js";
import { Sandbox } from "./cli-process.js";
import { ask, postgresProgram, startPostgres } from "../servers/postgres.js";

const LONG_MS = process.env["PARTITIONS_MS"];
const CHURN_MS = Number(LONG_MS ?? 4_000);
const USUAL = LONG_MS === undefined ? { members: 6, count: 48 } : { members: 20, count: 256 };
const TTL_MS = LONG_MS === undefined ? 2_000 : 3_000;
/** How often each counter is added to, on average. */
const EVERY_MS = LONG_MS === undefined ? 500 : 3_000;
/** For what has to come to pass, on a machine that has much else to do. */
const PATIENCE_MS = 90_000;

type Row = { n: number; value: number; token: string };

/** Where the counters are, and the leases. */
interface Place {
  readonly store: string;
  /** How many there are. */
  readonly members: number;
  readonly count: number;
  /** What its members need to know beside. */
  readonly env?: Readonly<Record<string, string>>;
  readonly ledger: Readonly<Record<string, string>>;
  counters(): Promise<Map<number, number>>;
  /** What was written, in the order of being accepted. */
  history(): Promise<Row[]>;
}

class Process {
  readonly #child: ChildProcess;
  readonly acknowledged: { partition: number; value: number }[] = [];
  readonly refused: string[] = [];
  isFrozen = false;
  /** Before it is a member, a signal to end just ends it. */
  readonly #joined: Promise<void>;

  constructor({ store, ledger, count, env = {} }: Place) {
    const plan = { store, ledger, group: "orders", count, ttl: TTL_MS, everyMs: EVERY_MS };
    const script = path.join(import.meta.dirname, "children", "partition-member.mjs");
    this.#child = spawn(process.execPath, ["--no-warnings", script, JSON.stringify(plan)], {
      stdio: ["ignore", "pipe", "inherit"],
      env: { ...process.env, ...env },
    });
    let join: () => void;
    this.#joined = new Promise((resolve) => (join = resolve));
    createInterface({ input: this.#child.stdout! }).on("line", (line) => {
      const { member, partition, value, refused } = JSON.parse(line);
      if (member !== undefined) join();
      if (value !== undefined) this.acknowledged.push({ partition, value });
      if (refused !== undefined) this.refused.push(refused);
    });
  }

  freeze(): void {
    this.isFrozen = true;
    this.#child.kill("SIGSTOP");
  }

  thaw(): void {
    this.isFrozen = false;
    this.#child.kill("SIGCONT");
  }

  async end(signal: "SIGTERM" | "SIGKILL"): Promise<number | null> {
    const { exitCode, signalCode } = this.#child;
    if (exitCode !== null || signalCode !== null) return exitCode;
    if (signal === "SIGTERM") await this.#joined;
    const closed = once(this.#child, "close");
    this.#child.kill(signal);
    const [code] = (await closed) as [number | null];
    return code;
  }
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

async function churned(place: Place): Promise<void> {
  const all: Process[] = [];
  const living: Process[] = [];
  const start = (): void => {
    const one = new Process(place);
    all.push(one);
    living.push(one);
  };
  const any = (): Process => living[Math.floor(Math.random() * living.length)]!;
  let killed = 0;
  let frozen = 0;
  const watcher = await connect(place.store);
  const settled = async (): Promise<void> => {
    for (const endMs = performance.now() + PATIENCE_MS; ;) {
      const { members, unowned } = await partitionsView(watcher, "orders");
      const shares = members.map(({ partitions }) => partitions.length);
      const isEven = Math.max(...shares) - Math.min(...shares) <= 1;
      if (members.length === living.length && unowned.length === 0 && isEven) return;
      if (performance.now() > endMs) throw new Error(`not shared evenly: ${shares.join(" ")}`);
      await pause(200);
    }
  };
  try {
    for (let i = 0; i < place.members; i++) start();
    await settled();
    const endMs = performance.now() + CHURN_MS;
    // However the dice fall, some are killed and some frozen.
    while (performance.now() < endMs || killed < 2 || frozen < 2) {
      const one = any();
      const dice = Math.random();
      if (dice < 0.4 && !one.isFrozen) {
        one.freeze();
        frozen++;
        void pause(TTL_MS * (0.5 + Math.random())).then(() => one.thaw());
      } else if (dice < 0.75) {
        living.splice(living.indexOf(one), 1);
        await one.end("SIGKILL");
        killed++;
        start();
      } else if (living.length < place.members * 1.3) start();
      else {
        living.splice(living.indexOf(one), 1);
        one.thaw();
        expect(await one.end("SIGTERM")).toBe(0);
      }
      await pause(Math.random() * TTL_MS * (6 / place.members));
    }
    await pause(2 * TTL_MS);
    await settled();
    await Promise.all(living.map(async (one) => expect(await one.end("SIGTERM")).toBe(0)));
    const acknowledged = all.flatMap((one) => one.acknowledged);
    expectNothingLost(place.count, await place.counters(), await place.history(), acknowledged);
    if (LONG_MS !== undefined) {
      const refused: Record<string, number> = {};
      for (const name of all.flatMap((one) => one.refused)) {
        refused[name] = (refused[name] ?? 0) + 1;
      }
      console.log({ killed, frozen, started: all.length, writes: acknowledged.length, refused });
    }
  } finally {
    for (const one of all) await one.end("SIGKILL");
    await watcher.close();
  }
}

it("tenure partitions shows who owns what", async () => {
  await using box = new Sandbox();
  const empty = await box.tenure(["partitions", "orders"]);
  expect(empty).toMatchObject({ code: 1, stdout: "orders has no members\n" });
  const tenure = await connect(`sqlite:${box.file("tenure.db")}`);
  const group = await partitions(tenure, "orders", { count: 4, info: { zone: "north" } });
  const flags = ["--store", `sqlite:${box.file("tenure.db")}`];
  while (group.owned.length < 4) await pause(10);
  const shown = await box.tenure(["partitions", "orders", ...flags]);
  expect(shown.code).toBe(0);
  expect(shown.stdout).toMatch(/^OWNER +OF 4 +PARTITIONS\n\d+ on \S+ +4 +0-3\n$/);
  const { stdout } = await box.tenure(["partitions", "orders", "--json", ...flags]);
  const view = JSON.parse(stdout);
  expect(view).toMatchObject({ name: "orders", count: 4, unowned: [] });
  expect(view.members).toMatchObject([{ id: group.member, info: { zone: "north" } }]);
  expect(view.partitions[0].token).toBe(String(group.owned[0]!.token));
  await group.close();
  await tenure.close();
  const usage = await box.tenure(["partitions"]);
  expect(usage).toMatchObject({ code: 64, stdout: "" });
});

it("tenure partitions runs a command for each partition, and hands them over", async () => {
  await using box = new Sandbox();
  const line =
    `trap 'echo "$TENURE_PARTITION end" >> ${box.file("log")}; exit 0' TERM; ` +
    `echo "$TENURE_PARTITION $TENURE_TOKEN" >> ${box.file("log")}; while :; do sleep 0.05; done`;
  const args = ["partitions", "jobs", "--count", "2", "--ttl", "3s", "-c", "--", line];
  const seen = (): string[] =>
    existsSync(box.file("log")) ? readFileSync(box.file("log"), "utf8").trim().split("\n") : [];
  const first = box.start(args);
  await until(() => seen().length === 2, PATIENCE_MS);
  expect(seen().map((one) => one.split(" ")[0]).sort()).toEqual(["0", "1"]);
  const second = box.start(args);
  await until(() => seen().length === 4, PATIENCE_MS);
  const moved = seen()[2]!.split(" ")[0];
  expect(seen()[2]).toBe(`${moved} end`);
  const tokens = seen().filter((one) => new RegExp(`^${moved} \\d`).test(one));
  expect(BigInt(tokens[1]!.split(" ")[1]!) > BigInt(tokens[0]!.split(" ")[1]!)).toBe(true);
  first.kill("SIGTERM");
  expect((await first.ended).code).toBe(143);
  await until(() => seen().length === 6, PATIENCE_MS);
  second.kill("SIGTERM");
  expect((await second.ended).code).toBe(143);
  expect(seen().filter((one) => one.endsWith("end"))).toHaveLength(4);
  const failing = await box.tenure(["partitions", "jobs", "--count", "2", "--", "sh", "-c", "exit 7"]);
  expect(failing.code).toBe(7);
  expect((await box.tenure(["partitions", "jobs", "--", "true"])).code).toBe(64);
});

/** Each write of a counter is one more than the one before, and no token is older. */
function expectNothingLost(
  count: number,
  counters: ReadonlyMap<number, number>,
  history: readonly Row[],
  acknowledged: readonly { partition: number; value: number }[],
): void {
  const last = new Map<number, { value: number; token: bigint }>();
  for (const { n, value, token } of history) {
    const before = last.get(n) ?? { value: 0, token: 0n };
    expect(value, `counter ${n}`).toBe(before.value + 1);
    expect(BigInt(token) >= before.token, `token of counter ${n}`).toBe(true);
    last.set(n, { value, token: BigInt(token) });
  }
  for (const [n, value] of counters) expect(value).toBe(last.get(n)?.value ?? 0);
  const told = new Set(acknowledged.map(({ partition, value }) => `${partition}:${value}`));
  // Acknowledged once each, and all there.
  expect(told.size).toBe(acknowledged.length);
  for (const { partition, value } of acknowledged) {
    expect(value).toBeLessThanOrEqual(counters.get(partition)!);
  }
  expect(counters.size).toBe(count);
  expect(acknowledged.length).toBeGreaterThan(count);
}

const LIMIT = { timeout: CHURN_MS + 3 * PATIENCE_MS };
const TABLES =
  "CREATE TABLE counter (n INTEGER PRIMARY KEY, value INTEGER NOT NULL); " +
  "CREATE TABLE history (n INTEGER, value INTEGER, token TEXT";

/** Counters in SQLite, and the leases where `at` says. */
async function churnedInSqlite(
  at: (folder: string) => Pick<Place, "store" | "env">,
  size = USUAL,
): Promise<void> {
  const folder = mkdtempSync(path.join(tmpdir(), "tenure-partitions-"));
  const file = path.join(folder, "counters.db");
  const db = new Database(file);
  try {
    db.pragma("journal_mode = WAL");
    db.exec(`${TABLES});`);
    const insert = db.prepare("INSERT INTO counter VALUES (?, 0)");
    for (let n = 0; n < size.count; n++) insert.run(n);
    await churned({
      ...at(folder),
      ...size,
      ledger: { sqlite: file },
      counters: async () =>
        new Map(db.prepare<[], Row>("SELECT * FROM counter").all().map((r) => [r.n, r.value])),
      history: async () => db.prepare<[], Row>("SELECT * FROM history ORDER BY rowid").all(),
    });
  } finally {
    db.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

it("counters in SQLite lose nothing to kills, freezes and joins", LIMIT, () =>
  churnedInSqlite((folder) => ({ store: `sqlite:${path.join(folder, "locks.db")}` })));

describeOn(dynaliteProgram, "partitions on DynamoDB, where each times the dead by its own clock", () => {
  it("counters lose nothing to kills, freezes and joins", LIMIT, async () => {
    await using server = await startDynamodb(dynaliteProgram);
    const store = server.urlOf(await readyTable(server));
    const env = { AWS_ACCESS_KEY_ID: "test", AWS_SECRET_ACCESS_KEY: "test" };
    // The one who looks is this process.
    Object.assign(process.env, env);
    // A renewal is a request for each partition, and the server a slow one.
    await churnedInSqlite(() => ({ store, env }), { members: 4, count: 12 });
  });
});

describeOn(postgresProgram, "partitions on Postgres", () => {
  it("counters lose nothing to kills, freezes and joins", LIMIT, async () => {
    await using server = await startPostgres({ max_connections: 300 });
    await ask(server.port, `${TABLES}, at BIGINT GENERATED ALWAYS AS IDENTITY)`);
    const numbers = `generate_series(0, ${USUAL.count - 1}) AS n`;
    await ask(server.port, `INSERT INTO counter SELECT n, 0 FROM ${numbers}`);
    await churned({
      store: server.url,
      ...USUAL,
      ledger: { postgres: server.url },
      counters: async () => {
        const rows = await ask<Row>(server.port, "SELECT * FROM counter");
        return new Map(rows.map(({ n, value }) => [n, value]));
      },
      history: () => ask<Row>(server.port, "SELECT n, value, token FROM history ORDER BY at"),
    });
  });
});
