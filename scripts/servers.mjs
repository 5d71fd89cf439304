// The real servers that tests need, and a browser: installs what is missing where it may, and says
// what it lacks.
//   node scripts/servers.mjs
// It may on Debian and its kin, as root. No service is left running or enabled: tests start servers
// of their own.
import { spawnSync } from "node:child_process";
import { existsSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { buildGoServers } from "./go-servers.mjs";
import { provideKafka } from "./kafka.mjs";
import { hasMoto, provideMoto } from "./moto.mjs";

/**
 * @typedef {object} Program
 * @property {string} name
 * @property {string} binary
 * @property {string} package Debian's package.
 * @property {string[]} services Units that the package would enable.
 * @property {string} suites What does not run without it.
 */

/** The same names and binaries as in test/servers. @type {readonly Program[]} */
const programs = [
  {
    name: "Redis",
    binary: "redis-server",
    package: "redis-server",
    services: ["redis-server"],
    suites: "redis, redlock",
  },
  {
    name: "PostgreSQL",
    binary: "postgres",
    package: "postgresql",
    services: ["postgresql"],
    suites: "postgres, postgres-advisory",
  },
  {
    name: "PgBouncer",
    binary: "pgbouncer",
    package: "pgbouncer",
    services: ["pgbouncer"],
    suites: "postgres behind a pooler",
  },
  {
    name: "MariaDB",
    binary: "mariadbd",
    package: "mariadb-server",
    services: ["mariadb"],
    suites: "mysql",
  },
  {
    name: "ZooKeeper",
    binary: "zkServer.sh",
    package: "zookeeper",
    services: ["zookeeper"],
    suites: "zookeeper",
  },
  {
    name: "etcd",
    binary: "etcd",
    package: "etcd-server",
    services: ["etcd"],
    suites: "etcd",
  },
  {
    name: "Chromium",
    binary: "chromium",
    package: "chromium",
    services: [],
    suites: "the page of the lab",
  },
  {
    name: "moto",
    binary: "tenure-moto",
    // What pip needs, which then installs the server itself.
    package: "python3-venv",
    services: [],
    suites: "dynamodb with transactions",
  },
];

/** Asked by the packages' own scripts before they start a service; 101 says no. */
const POLICY = "/usr/sbin/policy-rc.d";

/** @returns {readonly Program[]} */
export function missingServers() {
  return programs.filter((program) => !isInstalled(program));
}

/** Installs what it may. @returns what is still missing */
function provideServers() {
  const missing = missingServers();
  if (missing.length > 0 && mayInstall()) install(missing);
  buildGoServers();
  provideKafka();
  provideMoto();
  return missingServers();
}

/** One line for a missing server. */
export function explainMissing({ name, package: debian, suites }) {
  return `${name} is not installed (apt-get install ${debian}), which these suites need: ${suites}`;
}

function isInstalled({ name, binary }) {
  if (name === "moto") return hasMoto();
  const folders = (process.env.PATH ?? "").split(path.delimiter);
  const system = ["/usr/local/sbin", "/usr/sbin", "/sbin"];
  const hidden = [...system, "/usr/share/zookeeper/bin", ...postgresFolders()];
  return [...folders, ...hidden].some((folder) => existsSync(path.join(folder, binary)));
}

/** Debian keeps the programs of each major version of PostgreSQL apart. */
function postgresFolders() {
  const base = "/usr/lib/postgresql";
  const versions = existsSync(base) ? readdirSync(base) : [];
  return versions.map((version) => path.join(base, version, "bin"));
}

function mayInstall() {
  return process.getuid?.() === 0 && existsSync("/etc/debian_version");
}

/** @param {readonly Program[]} missing */
function install(missing) {
  const packages = missing.map((program) => program.package);
  console.log(`installing with apt-get: ${packages.join(" ")}`);
  const hasPolicy = existsSync(POLICY);
  if (!hasPolicy) writeFileSync(POLICY, "#!/bin/sh\nexit 101\n", { mode: 0o755 });
  try {
    run("apt-get", "update", "-qq");
    run("apt-get", "install", "-qq", "-y", "--no-install-recommends", ...packages);
    for (const unit of missing.flatMap((program) => program.services)) {
      run("systemctl", "disable", "--quiet", unit);
    }
  } finally {
    if (!hasPolicy) rmSync(POLICY, { force: true });
  }
}

function run(program, ...args) {
  const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
  const quiet = { env, stdio: ["ignore", "ignore", "inherit"] };
  const { error, status } = spawnSync(program, args, quiet);
  // Without systemd there is nothing to disable; a failed installation shows in what is missing.
  if (error !== undefined || status === 0) return;
  console.log(`${program} ${args.join(" ")} ended with ${status}`);
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const missing = provideServers();
  for (const program of missing) console.log(explainMissing(program));
  if (missing.length === 0) console.log("all servers are installed");
  process.exitCode = missing.length > 0 && process.env.CI === "true" ? 1 : 0;
}
