// The table of stores in README.md, made from manifests and counts of the last `npm run verify`.
//   node scripts/matrix.mjs            prints it
//   node scripts/matrix.mjs --write    puts it into README.md
//   node scripts/matrix.mjs --check    fails when README.md promises otherwise
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";

const root = path.resolve(import.meta.dirname, "..");

/** Rows in order: store, how it is reached, who shares it, and the test files of its suite. */
const stores = [
  ["memory", "`memory:`", "one process", ["memory"]],
  ["sqlite", "`sqlite:PATH`", "the processes of one machine", ["sqlite"]],
  ["redis", "`redis://` `rediss://`", "Redis 6.2 or later (a cluster: 7.0)", ["redis"]],
  ["redlock", "`redlock:redis://…,…`", "N independent Redis servers", ["redlock"]],
  ["postgres", "`postgres://`", "PostgreSQL", ["postgres", "postgres-sql", "postgres-pooler"]],
  [
    "postgres-advisory", "`postgres+advisory://`", "PostgreSQL, session locks",
    ["postgres-advisory"],
  ],
  ["mysql", "`mysql://` `mariadb://`", "MariaDB; MySQL 8 not run", ["mysql"]],
  [
    "etcd", "`etcd://h1,h2,h3` `etcds://`", "etcd 3.4 or later", ["etcd", "etcd-cluster", "etcd-new"],
  ],
  [
    "zookeeper", "`zookeeper://h1,h2,h3`", "ZooKeeper 3.5.3 or later",
    ["zookeeper", "zookeeper-alone"],
  ],
  [
    "dynamodb", "`dynamodb://TABLE`", "DynamoDB; dynalite and moto run, the service not",
    ["dynamodb", "dynamodb-moto"],
  ],
  ["consul", "`consul://` `consuls://`", "Consul; 1.14 run", ["consul", "consul-cluster"]],
];

/** Servers that no package brings. Where they are missing, their rows stay as they are. */
const optional = ["consul"];

function duration(ms) {
  const day = 24 * 3_600_000;
  if (ms >= day && ms < 2 * day) return "1 day";
  if (ms >= day) return `${Math.round(ms / day)} days`;
  return ms >= 1000 ? `${ms / 1000} s` : `${ms} ms`;
}

function read(file) {
  const at = path.join(root, ".verify", file);
  return existsSync(at) ? JSON.parse(readFileSync(at, "utf8")) : undefined;
}

function matrix() {
  const yes = (is) => (is ? "yes" : "no");
  const { files } = read("tests.json") ?? { files: {} };
  const rows = [
    "| store | who shares it | tokens | expiry | deadline | waiting | fair | held check | TTL " +
      "| suite |",
    "|---|---|---|---|---|---|---|---|---|---|",
  ];
  for (const [store, url, who, suites] of stores) {
    const m = read(`manifests/${store}.json`);
    if (m === undefined && optional.includes(store)) {
      rows.push(...readme.split("\n").filter((line) => line.startsWith(`| ${url} |`)));
      continue;
    }
    if (m === undefined) return undefined;
    const counts = suites.map((suite) => files[`test/conformance/${suite}.test.ts`]);
    if (counts.includes(undefined)) return undefined;
    const sum = (state) => counts.reduce((total, count) => total + count[state], 0);
    const ttl = `${duration(m.minTtlMs)} to ${duration(m.maxTtlMs)} per ${m.ttlScope}`;
    const cells = [
      url, who, m.tokens, m.expiryClock, m.deadline, m.waiting, yes(m.fair), yes(m.heldCheck), ttl,
      `${sum("passed")} passed, ${sum("failed")} failed`,
    ];
    rows.push(`| ${cells.join(" | ")} |`);
  }
  return rows.join("\n");
}

/** The table without its last column: how many cases run also depends on the machine. */
function promises(rows) {
  return rows.replace(/\|[^|\n]*\|$/gm, "|");
}

const file = path.join(root, "README.md");
const readme = readFileSync(file, "utf8");
const opening = "<!-- matrix: made by scripts/matrix.mjs -->\n";
const closing = "<!-- /matrix -->";
const from = readme.indexOf(opening) + opening.length;
const to = readme.indexOf(closing);
const table = matrix();

if (table === undefined) {
  // Without the servers there is nothing to compare with: verify says which suites were skipped.
  console.log("no run of all suites to make the matrix from");
} else if (process.argv.includes("--write")) {
  writeFileSync(file, `${readme.slice(0, from)}${table}\n${readme.slice(to)}`);
} else if (process.argv.includes("--check")) {
  const is = promises(readme.slice(from, to).trim()) === promises(table);
  if (!is) console.log(`README.md has another matrix; node scripts/matrix.mjs --write\n${table}`);
  process.exitCode = is ? 0 : 1;
} else {
  console.log(table);
}
