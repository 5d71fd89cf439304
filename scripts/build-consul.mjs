// Builds the Consul server that tests use, from its published Go modules, into a folder outside of
// this tree. By hand, and only where there is Go: it takes minutes, and no package brings it.
//   node scripts/build-consul.mjs
//
// The last releases of 1.15 and 1.16 are not under an open-source licence any more; 1.14.11 is
// under the MPL. The version stands in test/servers/consul.ts, too.
import { spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { homedir, tmpdir } from "node:os";
import path from "node:path";

const VERSION = "1.14.11";
const MODULE = "github.com/hashicorp/consul";
const LICENSE = "Mozilla Public License, version 2.0";
const CLOSED = /business source licen|commons clause|server side public licen/i;

const cache = path.join(homedir(), ".cache/tenure-servers");
const target = path.join(cache, `consul-${VERSION}`);
const go = [...(process.env.PATH ?? "").split(path.delimiter), "/usr/local/go/bin"]
  .map((folder) => path.join(folder, "go"))
  .find((file) => existsSync(file));

/** Runs the go command; its own words are seen, its answer comes back. */
function run(cwd, ...args) {
  const stdio = ["ignore", "pipe", "inherit"];
  const { status, error, stdout } = spawnSync(go, args, { cwd, stdio, encoding: "utf8" });
  if (error !== undefined || status !== 0) throw error ?? new Error(`go ${args[0]}: ${status}`);
  return stdout.trim();
}

/** Of all modules that the server is made of. @throws Error where one is not open source. */
function checkLicences(folder) {
  const format = "{{with .Module}}{{.Path}} {{.Dir}}{{end}}";
  const list = run(folder, "list", "-mod=mod", "-deps", "-f", format, MODULE);
  for (const line of new Set(list.split("\n").filter((text) => text.includes(" ")))) {
    const [name, source] = line.split(" ");
    const file = readdirSync(source).find((entry) => /^(licen[cs]e|copying)/i.test(entry));
    const text = file === undefined ? "" : readFileSync(path.join(source, file), "utf8");
    const isWrong = name === MODULE ? !text.includes(LICENSE) : CLOSED.test(text);
    if (isWrong) throw new Error(`${name}: its licence is not an open one`);
  }
}

function build() {
  const folder = mkdtempSync(path.join(tmpdir(), "tenure-consul-"));
  const began = performance.now();
  try {
    writeFileSync(
      path.join(folder, "go.mod"),
      `module tests\n\ngo 1.20\n\nrequire ${MODULE} v${VERSION}\n`,
    );
    const made = path.join(folder, "consul");
    checkLicences(folder);
    run(folder, "build", "-mod=mod", "-ldflags=-s -w", "-o", made, MODULE);
    mkdirSync(cache, { recursive: true });
    // Renamed at last, so that a test never starts half a file.
    writeFileSync(`${target}.new`, readFileSync(made), { mode: 0o755 });
    renameSync(`${target}.new`, target);
    const seconds = Math.round((performance.now() - began) / 1_000);
    console.log(`${target} was built in ${seconds} s`);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

if (existsSync(target)) console.log(`${target} is there`);
else if (go === undefined) {
  console.log("there is no Go here (on Debian: apt-get install golang-go)");
  process.exitCode = 1;
} else build();
