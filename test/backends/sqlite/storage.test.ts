import { statSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { AcquireRequest } from "../../../src/core/backend.js";
import type { SqliteBackend } from "../../../src/backends/sqlite/index.js";
import { beside, call, opened, request, taken, temporaryFolder } from "./folder.js";

const NAMES = 50_000;

async function grantOf(backend: SqliteBackend, wanted: AcquireRequest) {
  const answer = await backend.acquire(wanted, call());
  if (!("grant" in answer)) throw new Error("held");
  return answer.grant;
}

const breath = (): Promise<void> => new Promise((resume) => setImmediate(resume));

test("fifty thousand names used once leave a file of a few pages and a bounded log", async () => {
  const path = join(temporaryFolder(), "locks.db");
  const backend = await opened(path);
  let largestLog = 0;
  for (let i = 0; i < NAMES; i++) {
    const grant = await grantOf(backend, request(`job:${i}`));
    await backend.release([grant], call());
    if (i % 100 !== 0) continue;
    // Checkpoints flush in the thread pool: the event loop has to come round.
    await breath();
    largestLog = Math.max(largestLog, statSync(`${path}-wal`).size);
  }
  expect(statSync(path).size).toBeLessThan(128 * 1024);
  // At 8,000 frames of 4 KiB the upkeep waits for the checkpoint itself, however slow the disk is.
  expect(largestLog).toBeLessThan(40 * 1024 * 1024);
  await backend.close();
  expect(statSync(path).size).toBeLessThan(128 * 1024);
}, 60_000);

test("leases that expired and that nobody asks for are swept", async () => {
  const path = join(temporaryFolder(), "locks.db");
  const backend = await opened(path);
  for (let i = 0; i < 3_000; i++) await grantOf(backend, request(`once:${i}`, 10));
  await new Promise((resume) => setTimeout(resume, 20));
  for (let i = 0; i < 3_000; i++) {
    await backend.release([await grantOf(backend, request("busy"))], call());
  }
  const [row] = await beside(path, (db) =>
    db.prepare("SELECT count(*) AS n FROM tenure_lease").all() as any,
  );
  expect(row.n).toBeLessThan(10n);
});

test("ten thousand leases are renewed in a handful of batches", async () => {
  const path = join(temporaryFolder(), "locks.db");
  const backend = await opened(path);
  const grants = [];
  for (let i = 0; i < 10_000; i++) grants.push(await grantOf(backend, request(`n${i}`)));
  const { renewBatch } = backend.manifest;
  // How long one takes is measured in bench/embedded.
  expect(grants.length / renewBatch).toBeLessThanOrEqual(20);
  for (let from = 0; from < grants.length; from += renewBatch) {
    const answers = await backend.renew(grants.slice(from, from + renewBatch), call());
    expect(answers.every((answer) => answer === "renewed")).toBe(true);
  }
  await backend.release(grants, call());
});

test("each lease of a batch hears its own outcome, whatever is claimed of the others", async () => {
  const backend = await opened(join(temporaryFolder(), "locks.db"));
  const [long, short, gone] = [
    await grantOf(backend, request('a "quoted" \u00e9\\ name', 30_000)),
    await grantOf(backend, request("short", 10_000)),
    await grantOf(backend, request("gone")),
  ];
  await backend.release([gone], call());
  const stranger = { ...long, holder: "stranger" };
  const mixedUp = { ...long, token: short.token };
  const elsewhere = { ...short, name: long.name };
  const outcomes = await backend.renew(
    [long, stranger, short, mixedUp, gone, elsewhere, long],
    call(),
  );
  const lost = { lost: expect.objectContaining({ holder: long.holder, token: long.token }) };
  expect(outcomes).toEqual([
    "renewed", lost, "renewed", lost, { lost: "absent" }, lost, "renewed",
  ]);
  const left = await Promise.all([long, short].map(({ name }) => backend.inspect(name, call())));
  expect(left.map((held) => held!.ttlMs)).toEqual([30_000, 10_000]);
});

test("names are told apart byte by byte", async () => {
  const path = join(temporaryFolder(), "locks.db");
  const backend = await opened(path);
  const names = [
    "a", "ab", "a/b", "A", "a-0000000001", " ", "\u00e9", "e\u0301", ":", "/", "%", "_", "'", '"',
    "\u{10ffff}", "\u{10ffff}x", "n".repeat(512), "tenure_lease", "\n",
  ];
  for (const name of names) await taken(backend, name);
  const seen: string[] = [];
  for await (const { name } of backend.list("", call())) seen.push(name);
  expect(seen.sort()).toEqual([...names].sort());
  const withA: string[] = [];
  for await (const { name } of backend.list("a", call())) withA.push(name);
  expect(withA.sort()).toEqual(names.filter((name) => name.startsWith("a")).sort());
});

test("a list is complete over several pages", async () => {
  const path = join(temporaryFolder(), "locks.db");
  const backend = await opened(path);
  for (let i = 0; i < 1_200; i++) await grantOf(backend, request(`p:${i}`));
  await grantOf(backend, request("q"));
  const seen = new Set<string>();
  for await (const { name } of backend.list("p:", call())) seen.add(name);
  expect(seen.size).toBe(1_200);
});

test("holder info comes back as it was given", async () => {
  const path = join(temporaryFolder(), "locks.db");
  const backend = await opened(path);
  const holderInfo = { host: "h\u00e9\u4e2d", pid: 7, command: `"quoted" 'and' \\` };
  await grantOf(backend, { ...request("x"), holderInfo });
  expect(await backend.inspect("x", call())).toMatchObject({ holderInfo, waiters: 0 });
});
