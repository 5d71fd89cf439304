import {
  chmodSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { networkFileSystem, refuseNetworkFileSystem, StoreFiles } from "../../../src/backends/sqlite/files.js";
import { sqliteBackend } from "../../../src/backends/sqlite/index.js";
import { sqlite } from "../../../src/backends/sqlite/open.js";
import { connect } from "../../../src/connect.js";
import {
  ArgumentTypeError,
  GuaranteeError,
  OutcomeUnknownError,
  UnavailableError,
} from "../../../src/core/errors.js";
import { explainSqlite, isBusy } from "../../../src/drivers/sqlite/errors.js";
import { openSqlite } from "../../../src/drivers/sqlite/open.js";
import { platform } from "../../../src/platform/index.js";
import { machine } from "../../../src/platform/machine.js";
import { beside, call, opened, request, taken, temporaryFolder } from "./folder.js";

async function failure(path: string): Promise<unknown> {
  try {
    const backend = await sqlite(path);
    await backend.open!(call()).finally(() => backend.close());
  } catch (error) {
    return error;
  }
  throw new Error(`${path} was opened`);
}

function expectUnavailable(error: unknown, message: RegExp, retryable = false): void {
  expect(error).toBeInstanceOf(UnavailableError);
  expect((error as UnavailableError).message).toMatch(message);
  expect((error as UnavailableError).retryable).toBe(retryable);
}

test("the scheme of a URL may stand in capitals", async () => {
  const path = join(temporaryFolder(), "Capitals.db");
  const tenure = await connect(`SQLite:${path}`);
  const lease = await tenure.acquire("a");
  expect(await lease.release()).toBe("released");
  await tenure.close();
  expect(readdirSync(join(path, ".."))).toContain("Capitals.db");
});

test("each file that cannot serve has an error of its own that names it", async () => {
  const folder = temporaryFolder();
  const text = join(folder, "text.db");
  writeFileSync(text, "this is no database, although it is long enough to be read as one\n".repeat(99));
  expectUnavailable(await failure(text), /not a SQLite database.*text\.db/);
  mkdirSync(join(folder, "sub"));
  expectUnavailable(await failure(join(folder, "sub")), /sub is a directory/);
  expectUnavailable(await failure(join(folder, "none", "x.db")), /folder .*none does not exist/);
  expectUnavailable(await failure("/dev/null"), /not a regular file/);
  for (const path of [":memory:", "", "file:x.db"]) {
    expect(await failure(path)).toBeInstanceOf(ArgumentTypeError);
  }
  expect(await failure("sqlite:./x.db")).toMatchObject({
    code: "TENURE_INVALID_ARGUMENT",
    message: 'path must be the path alone, without sqlite: before it, got "sqlite:./x.db"',
  });
});

test("a wrong option or URL is told before a file is made", async () => {
  const folder = temporaryFolder();
  const url = `sqlite:${join(folder, "locks.db")}`;
  const wrong = [
    ["purpose", { purpose: "fun" }],
    ["require", { require: "sure" }],
    ["timeout", { timeout: -1 }],
    ["holderInfo.a", { holderInfo: { a: {} } }],
    ["storeId", { storeId: 5 }],
    ["endWithProcess", { endWithProcess: "no" }],
  ] as const;
  for (const [option, options] of wrong) {
    await expect(connect(url, options as never)).rejects.toMatchObject({ family: "caller", option });
  }
  const tooMuch = connect(url, { require: "consensus" });
  await expect(tooMuch).rejects.toThrow('the tokens of this sqlite are "durable"');
  expect(readdirSync(folder)).toEqual([]);
  for (const text of ["", "sqlite:", "sqlite://locks.db", "locks.db", "nosql:x"]) {
    await expect(connect(text)).rejects.toMatchObject({ family: "caller", option: "url" });
  }
  await expect(connect("locks.db")).rejects.toThrow(
    /a file is sqlite: and its path, got "locks\.db"$/,
  );
  // What follows the scheme may be a password.
  await expect(connect("nosql://me:secret@host")).rejects.toThrow('got "nosql:…"');
});

test("a corrupt file is told as corrupt", async () => {
  const path = join(temporaryFolder(), "locks.db");
  const backend = await opened(path);
  await backend.close();
  // All but the first page, which says that it is a database.
  const bytes = readFileSync(path);
  writeFileSync(path, bytes.fill(0xff, 4_096));
  expectUnavailable(await failure(path), /corrupt.*locks\.db/);
});

test("a read-only database is told as such when something is to be written", async () => {
  const path = join(temporaryFolder(), "locks.db");
  await (await opened(path)).close();
  const { bootId = "one", ...rest } = await machine();
  const database = await openSqlite(path, { readonly: true });
  const backend = sqliteBackend({
    database,
    faults: {
      isBusy,
      explain: (error, during) => explainSqlite(error, { file: path, during }),
    },
    machine: { ...rest, bootId },
    runtime: platform(),
  });
  const error = await backend.open!(call()).catch((caught: unknown) => caught);
  expectUnavailable(error, /read-only.*locks\.db/);
  await backend.close();
});

test.runIf(process.getuid?.() !== 0)("a folder without permission is told as such", async () => {
  const folder = join(temporaryFolder(), "closed");
  mkdirSync(folder);
  chmodSync(folder, 0);
  expectUnavailable(await failure(join(folder, "locks.db")), /permission/);
  chmodSync(folder, 0o700);
});

test("a full database refuses and grants nothing, and recovers", async () => {
  const path = join(temporaryFolder(), "locks.db");
  const { bootId = "one", ...rest } = await machine();
  const database = await openSqlite(path);
  const backend = sqliteBackend({
    database,
    faults: {
      isBusy,
      explain: (error, during) => explainSqlite(error, { file: path, during, committing: true }),
    },
    machine: { ...rest, bootId },
    runtime: platform(),
  });
  await backend.open!(call());
  const grants = [await taken(backend, "first")];
  database.exec("PRAGMA max_page_count = 1");
  let error: unknown;
  for (let i = 0; error === undefined && i < 2_000; i++) {
    const name = `${i}`.padStart(400, "n");
    try {
      const answer = await backend.acquire(request(name), call());
      if ("grant" in answer) grants.push(answer.grant);
    } catch (caught) {
      error = caught;
      expect(await backend.inspect(name, call())).toBeNull();
    }
  }
  expectUnavailable(error, /full.*locks\.db/, true);
  // What was granted before is all there, and can be given back: a full disk must not hold leases.
  const released = await backend.release(grants, call());
  expect(new Set(released)).toEqual(new Set(["released"]));
  database.exec("PRAGMA max_page_count = 100000");
  await taken(backend, "after");
  await backend.close();
});

test("an input/output error leaves the outcome unknown", () => {
  const error = Object.assign(new Error("disk I/O error"), { code: "SQLITE_IOERR_WRITE" });
  const context = { file: "x.db", during: "acquire", committing: true };
  expect(explainSqlite(error, context)).toBeInstanceOf(OutcomeUnknownError);
});

for (const [what, how] of [
  ["deleted", (path: string) => rmSync(path)],
  ["replaced", (path: string) => renameSync(`${path}.other`, path)],
  ["robbed of its log", (path: string) => rmSync(`${path}-wal`)],
] as const) {
  test(`a file ${what} while open is noticed: nothing is granted, leases are lost`, async () => {
    const path = join(temporaryFolder(), "locks.db");
    writeFileSync(`${path}.other`, "");
    const backend = await opened(path);
    const grant = await taken(backend, "x");
    how(path);
    // At once on renewals; elsewhere within 100 ms, by this clock.
    expect(await backend.renew([grant], call())).toEqual([{ lost: "absent" }]);
    const late = Promise.resolve().then(() => backend.acquire(request("y"), call()));
    expectUnavailable(await late.catch((error: unknown) => error), /deleted or replaced/);
    expect(await backend.release([grant], call())).toEqual(["not-held"]);
    await expect(backend.inspect("x", call())).rejects.toThrow(/deleted or replaced/);
  });
}

test("the file is looked at every 100 ms at most", async () => {
  let nowMs = 0;
  const path = join(temporaryFolder(), "locks.db");
  await opened(path);
  const files = new StoreFiles(path, () => nowMs);
  expect(files.isInPlace()).toBe(true);
  rmSync(path);
  nowMs = 99;
  expect(files.isInPlace()).toBe(true);
  nowMs = 100;
  expect(files.isInPlace()).toBe(false);
  await files.close();
});

test("file systems that several machines may share are known by their type", () => {
  expect(networkFileSystem(0x6969)).toBe("NFS");
  // Node reports the type as a signed number on some platforms.
  expect(networkFileSystem(0xff534d42 | 0)).toBe("CIFS");
  expect(networkFileSystem(0xef53)).toBeUndefined();
});

test("a file on a network file system is refused", async () => {
  const nfs = async () => ({ type: 0x6969 });
  const error = await refuseNetworkFileSystem("/share/locks.db", nfs).catch((caught) => caught);
  expect(error).toBeInstanceOf(GuaranteeError);
  expect(error.message).toMatch(/locks\.db is on NFS.*trustFileSystem/);
  await refuseNetworkFileSystem("/local/locks.db", async () => ({ type: 0xef53 }));
});

test("tables of a later version are refused, not changed", async () => {
  const path = join(temporaryFolder(), "locks.db");
  await (await opened(path)).close();
  await beside(path, (db) => db.exec("UPDATE tenure_store SET schema = 2"));
  expectUnavailable(await failure(path), /version 2/);
});

test("a process in another time namespace is refused in the same boot", async () => {
  const path = join(temporaryFolder(), "locks.db");
  await (await opened(path)).close();
  await beside(path, (db) => db.exec("UPDATE tenure_store SET clock = 'time:[1]'"));
  expect(await failure(path)).toBeInstanceOf(GuaranteeError);
});

test("the store's id is kept in the file, or given", async () => {
  const path = join(temporaryFolder(), "locks.db");
  const [a, b] = [await opened(path), await opened(path)];
  expect(a.storeId).toBe(b.storeId);
  expect((await opened(path, { storeId: "mine" })).storeId).toBe("mine");
  expect(a.storeId).toMatch(/^[A-Za-z0-9_-]{1,64}$/);
});

test("wrong options are told before any I/O", async () => {
  for (const options of [
    { storeId: "" }, { storeId: 7 }, { endWithProcess: "yes" }, { trustFileSystem: 1 }, { bootId: 2 },
  ]) {
    const error = await sqlite("/none/x.db", options as never).catch((caught: unknown) => caught);
    expect(error).toMatchObject({ code: "TENURE_INVALID_ARGUMENT", option: Object.keys(options)[0] });
  }
});
