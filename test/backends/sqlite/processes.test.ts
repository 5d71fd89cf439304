import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { startChild, type Child } from "./children.js";
import { beside, call, opened, refused, request, taken, temporaryFolder } from "./folder.js";

async function children(path: string, count: number): Promise<Child[]> {
  const started = Array.from({ length: count }, () => startChild());
  await Promise.all(started.map((child) => child.tell({ do: "open", path })));
  return started;
}

const nowMs = (): number => Number(process.hrtime.bigint()) / 1e6;

test("twenty processes that start at once set up one store", async () => {
  const path = join(temporaryFolder(), "locks.db");
  const started = Array.from({ length: 20 }, () => startChild());
  const answers = await Promise.all(started.map((child) => child.tell({ do: "open", path })));
  expect(new Set(answers.map(({ storeId }) => storeId)).size).toBe(1);
  const tokens = new Set<string>();
  for (const child of started) {
    const { token } = await child.tell({ do: "acquire", name: `${tokens.size}`, ttlMs: 9_000 });
    tokens.add(token);
  }
  expect(tokens.size).toBe(20);
}, 60_000);

test("a release wakes the waiter of another process well before the safety look", async () => {
  const path = join(temporaryFolder(), "locks.db");
  const [a, b] = await children(path, 2);
  const handOvers: number[] = [];
  for (let i = 0; i < 10; i++) {
    const [from, to] = i % 2 === 0 ? [a!, b!] : [b!, a!];
    if (i === 0) await from.tell({ do: "acquire", name: "x", ttlMs: 20_000 });
    await to.tell({ do: "enqueue", name: "x", ttlMs: 20_000 });
    const turn = to.tell({ do: "turn" });
    const released = await from.tell({ do: "release" });
    const { outcome, atMs } = await turn;
    expect([released.released, outcome]).toEqual(["released", "renewed"]);
    handOvers.push(atMs - released.atMs);
  }
  // A touch would bring the offer within 500 ms; seven of ten must come by the socket.
  expect(handOvers.filter((ms) => ms < 100).length).toBeGreaterThanOrEqual(7);
});

test("a killed holder is followed at once by the waiter, with a higher token", async () => {
  const path = join(temporaryFolder(), "locks.db");
  const [holder, waiter] = await children(path, 2);
  const { token } = await holder!.tell({ do: "acquire", name: "x", ttlMs: 60_000 });
  await waiter!.tell({ do: "enqueue", name: "x", ttlMs: 60_000 });
  const turn = waiter!.tell({ do: "turn" });
  const killedMs = nowMs();
  await holder!.kill();
  const next = await turn;
  expect(next.outcome).toBe("renewed");
  expect(BigInt(next.turn)).toBeGreaterThan(BigInt(token));
  expect(next.atMs - killedMs).toBeLessThan(1_000);
});

test("a holder that was killed while nobody waited does not refuse the next", async () => {
  const path = join(temporaryFolder(), "locks.db");
  const [holder] = await children(path, 1);
  const { token } = await holder!.tell({ do: "acquire", name: "x", ttlMs: 60_000 });
  await holder!.tell({ do: "enqueue", name: "y", ttlMs: 60_000 });
  const backend = await opened(path);
  expect((await refused(backend, "x")).token).toBe(BigInt(token));
  await holder!.kill();
  expect((await taken(backend, "x")).token).toBeGreaterThan(BigInt(token));
  const left = await beside(path, (db) => db.prepare("SELECT pid FROM tenure_session").all());
  expect(left).toEqual([{ pid: BigInt(process.pid) }]);
});

test("a stopped holder keeps its lease until its time is over, then loses it", async () => {
  const path = join(temporaryFolder(), "locks.db");
  const [holder] = await children(path, 1);
  await holder!.tell({ do: "acquire", name: "x", ttlMs: 700 });
  holder!.process.kill("SIGSTOP");
  const backend = await opened(path);
  const held = await refused(backend, "x");
  expect(held.leftMs).toBeGreaterThan(0);
  const ticket = await queue(backend).enqueue(request("x"), call());
  const offer = await ticket.turn(AbortSignal.timeout(5_000));
  expect(offer).toMatchObject({ name: "x" });
  holder!.process.kill("SIGCONT");
  expect(await holder!.tell({ do: "release" })).toMatchObject({ released: "not-held" });
  expect(await backend.renew([offer as never], call())).toEqual(["renewed"]);
});

test("waiters that were killed or stopped are passed over, the living one is served", async () => {
  const path = join(temporaryFolder(), "locks.db");
  const [killed, stopped, living] = await children(path, 3);
  const backend = await opened(path);
  const grant = await taken(backend, "x");
  for (const child of [killed!, stopped!, living!]) {
    await child.tell({ do: "enqueue", name: "x", ttlMs: 60_000 });
  }
  stopped!.process.kill("SIGSTOP");
  await killed!.kill();
  const turn = living!.tell({ do: "turn" });
  await backend.release([grant], call());
  const { outcome, turn: token } = await turn;
  expect(outcome).toBe("renewed");
  expect(BigInt(token)).toBeGreaterThan(grant.token);
  stopped!.process.kill("SIGCONT");
});

test("a waiter whose process has been silent for long is not even offered the lease", async () => {
  const path = join(temporaryFolder(), "locks.db");
  const [silent, living] = await children(path, 2);
  const backend = await opened(path);
  const grant = await taken(backend, "x");
  await silent!.tell({ do: "enqueue", name: "x", ttlMs: 60_000 });
  silent!.process.kill("SIGSTOP");
  await living!.tell({ do: "enqueue", name: "x", ttlMs: 60_000 });
  const { pid } = silent!.process;
  await beside(path, (db) =>
    db.prepare("UPDATE tenure_session SET seen = seen - 6000 WHERE pid = ?").run(BigInt(pid!)),
  );
  await backend.release([grant], call());
  const held = await backend.inspect("x", call());
  expect(held).toMatchObject({ holder: `child-${living!.process.pid}`, waiters: 0 });
  silent!.process.kill("SIGCONT");
});

test("a process that cannot be reached is not taken for dead", async () => {
  const folder = temporaryFolder();
  const path = join(folder, "locks.db");
  const [holder] = await children(path, 1);
  const { token } = await holder!.tell({ do: "acquire", name: "x", ttlMs: 60_000 });
  // As seen from a container with another view of the file system: the path leads nowhere.
  rmSync(`${path}-wake`, { recursive: true });
  const backend = await opened(path);
  await queue(backend).enqueue(request("x"), call());
  expect((await refused(backend, "x")).token).toBe(BigInt(token));
  await holder!.kill();
  expect((await refused(backend, "x")).token).toBe(BigInt(token));
});

test("leases of a process that closed in good order run until their time is over", async () => {
  const path = join(temporaryFolder(), "locks.db");
  const [holder] = await children(path, 1);
  const { token } = await holder!.tell({ do: "acquire", name: "x", ttlMs: 60_000 });
  await holder!.tell({ do: "close" });
  await holder!.kill();
  const backend = await opened(path);
  expect((await refused(backend, "x")).token).toBe(BigInt(token));
});

test("with endWithProcess false a lease outlives its process", async () => {
  const path = join(temporaryFolder(), "locks.db");
  const first = await opened(path, { endWithProcess: false });
  await taken(first, "x");
  const row = await beside(path, (db) => db.prepare("SELECT session FROM tenure_lease").get());
  expect(row).toEqual({ session: 0n });
});

test("nothing is left in the folder after close, nor after a kill and the next opening", async () => {
  const folder = temporaryFolder();
  const path = join(folder, "locks.db");
  const [child] = await children(path, 1);
  await child!.kill();
  const backend = await opened(path);
  await backend.close();
  expect(readdirSync(folder)).toEqual(["locks.db"]);
});

test("a path too long for a socket beside the file is no obstacle", async () => {
  const folder = join(temporaryFolder(), "d".repeat(120));
  const { mkdirSync } = await import("node:fs");
  mkdirSync(folder);
  const path = join(folder, "locks.db");
  const [a, b] = await children(path, 2);
  await a!.tell({ do: "acquire", name: "x", ttlMs: 60_000 });
  await b!.tell({ do: "enqueue", name: "x", ttlMs: 60_000 });
  const turn = b!.tell({ do: "turn" });
  await a!.kill();
  expect((await turn).outcome).toBe("renewed");
});

test("without any place for sockets waiters are served all the same", async () => {
  const temp = mkdtempSync(join(tmpdir(), "tenure-"));
  onTestFinished(() => rmSync(temp, { recursive: true, force: true }));
  const path = join(temp, "locks.db");
  const a = await opened(path);
  const b = await opened(path);
  await beside(path, (db) => db.exec("UPDATE tenure_session SET address = NULL"));
  const grant = await taken(a, "x");
  const ticket = await queue(b).enqueue(request("x"), call());
  await a.release([grant], call());
  expect(await ticket.turn(AbortSignal.timeout(3_000))).toMatchObject({ name: "x" });
});

function queue(backend: Awaited<ReturnType<typeof opened>>) {
  if (backend.waiting.kind !== "queue") throw new Error("no queue");
  return backend.waiting;
}
