// Servers in a version of today, built from their published Go modules where there is Go, into a
// folder that outlives this one. Without Go, or when that fails, their suites are skipped.
import { spawnSync } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { homedir, tmpdir } from "node:os";
import path from "node:path";

/** The same names as in test/servers. */
const modules = [
  { binary: "etcd-3.7.3", module: "go.etcd.io/etcd/server/v3", version: "v3.7.3" },
];

/** Where test/servers looks for them. */
const cache = path.join(homedir(), ".cache/tenure-servers");

/** Builds what is not there yet: some minutes, once. */
export function buildGoServers() {
  const go = findGo();
  if (go === undefined) return;
  for (const one of modules) if (!existsSync(path.join(cache, one.binary))) build(go, one);
}

function findGo() {
  const folders = (process.env.PATH ?? "").split(path.delimiter);
  return [...folders, "/usr/local/go/bin"]
    .map((folder) => path.join(folder, "go"))
    .find((file) => existsSync(file));
}

function build(go, { binary, module, version }) {
  console.log(`building ${binary} from ${module}@${version}`);
  const started = process.hrtime.bigint();
  const folder = mkdtempSync(path.join(tmpdir(), "tenure-go-"));
  const made = path.join(folder, binary);
  // No other Go is fetched than the one that is here.
  const env = { ...process.env, GOTOOLCHAIN: "local", GOFLAGS: "-mod=mod", CGO_ENABLED: "0" };
  const run = (...args) =>
    spawnSync(go, args, { cwd: folder, env, stdio: ["ignore", "ignore", "inherit"] }).status === 0;
  try {
    writeFileSync(path.join(folder, "go.mod"), "module servers.invalid/build\n\ngo 1.24\n");
    const isMade =
      run("get", `${module}@${version}`) &&
      run("build", "-trimpath", "-ldflags", "-s -w", "-o", made, module);
    const seconds = Number((process.hrtime.bigint() - started) / 1_000_000_000n);
    console.log(isMade ? `built in ${seconds} s` : `could not be built; its suites are skipped`);
    if (!isMade) return;
    mkdirSync(cache, { recursive: true });
    // Beside its place first: a rename within one file system leaves no half of it.
    const beside = path.join(cache, `${binary}.${process.pid}`);
    copyFileSync(made, beside);
    renameSync(beside, path.join(cache, binary));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}
