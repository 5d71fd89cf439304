// Does the built package work on the Node that runs this? Loads every entry through import and
// require(), takes leases in memory and in SQLite, fences a table, runs the command,
// and plays a run of the lab that must be the same on all of them.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import path from "node:path";

const root = path.resolve(import.meta.dirname, "..");
const require = createRequire(import.meta.url);
const manifest = JSON.parse(readFileSync(path.join(root, "package.json"), "utf8"));

for (const subpath of Object.keys(manifest.exports)) {
  if (subpath === "./package.json") continue;
  const specifier = `tenure${subpath.slice(1)}`;
  const imported = await import(specifier);
  const required = require(specifier);
  assert.deepEqual(Object.keys(required), Object.keys(imported), specifier);
  for (const name of Object.keys(imported)) {
    assert.equal(required[name], imported[name], `${specifier}: ${name} exists twice`);
  }
}

const { connect } = await import("tenure");
const dir = mkdtempSync(path.join(tmpdir(), "tenure-smoke-"));
try {
  for (const url of ["memory:", `sqlite:${path.join(dir, "locks.db")}`]) {
    const tenure = await connect(url);
    const first = await tenure.tryAcquire("smoke");
    assert.ok(first, `${url}: the lease was free`);
    assert.equal(await tenure.tryAcquire("smoke"), null, `${url}: a held lease was given away`);
    assert.equal(await first.release(), "released");
    const second = await tenure.tryAcquire("smoke");
    assert.ok(second && second.token > first.token, `${url}: the token did not grow`);
    await second.release();
    await tenure.close();
  }

  const { sqliteFence } = await import("tenure/fences/sqlite");
  const { toToken } = await import("tenure");
  const fence = sqliteFence(path.join(dir, "data.db"));
  const bearer = (token) => {
    return { name: "smoke", token: toToken(token), holder: `h${token}`, storeId: "smoke" };
  };
  const older = await fence.arm(bearer(33n), "account");
  await older.write((tx) => tx.exec("CREATE TABLE account (name TEXT NOT NULL, n INTEGER)"));
  await fence.install({ table: "account", resource: "name" });
  const newer = await fence.arm(bearer(34n), "account");
  const insert = (tx) => tx.run("INSERT INTO account VALUES ('account', 9007199254740993)");
  await assert.rejects(older.write(insert), { code: "TENURE_STALE_TOKEN" });
  await newer.write(insert);
  const row = await newer.read((tx) => tx.get("SELECT n FROM account"));
  assert.equal(row.n, 9_007_199_254_740_993n);
  await fence.close();

  const command = path.join(root, manifest.bin.tenure);
  const store = `sqlite:${path.join(dir, "command.db")}`;
  const child = ["--", process.execPath, "-e", "console.log(process.env.TENURE_TOKEN)"];
  const ran = spawnSync(process.execPath, [command, "run", "smoke", "--store", store, ...child], {
    encoding: "utf8",
  });
  assert.equal(ran.status, 0, ran.stderr);
  assert.match(ran.stdout, /^\d+\n$/);

  const { findScenario, play } = await import("tenure/lab");
  const played = await play(findScenario("redlock-clock"), { seed: 1, fence: "armed" });
  sameAsBefore(played.traceHash, statSync(command).mtimeMs);
} finally {
  rmSync(dir, { recursive: true, force: true });
}

/** A run of the lab is the same on every Node: what another one made of this build is compared. */
function sameAsBefore(traceHash, builtMs) {
  const file = path.join(root, ".verify", "trace.json");
  const before = existsSync(file) ? JSON.parse(readFileSync(file, "utf8")) : {};
  if (before.builtMs === builtMs) {
    const versions = `Node ${process.version} and ${before.version}`;
    assert.equal(traceHash, before.traceHash, `one seed is two runs on ${versions}`);
    return;
  }
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, JSON.stringify({ builtMs, traceHash, version: process.version }));
}

console.log(`smoke: Node ${process.version} works`);
