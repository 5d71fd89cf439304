// Who may import whom. Type imports count: a type is knowledge, too.

const core = "^src/core/";
const npmPackage = [
  "npm", "npm-dev", "npm-optional", "npm-peer", "npm-bundled", "npm-no-pkg", "npm-unknown",
];
const patterns =
  "election|claims|rows|transitions|inbox|idempotency|reservations|cas|queue|outbox|partitions|schedule";
/** The parts of core that turn a backend into leases: neither a backend nor a fence knows them. */
const machinery = "^src/core/(tenure|lease|renewal|waiting)";

/** Who may import npm packages: see docs/adr/0002-one-loader-per-client-library.md */
const loaders = "^src/(drivers/|.+/open\\.ts$)";

/** @param {string} name @param {string} comment @param {object} from @param {object} to */
const forbid = (name, comment, from, to) => ({ name, severity: "error", comment, from, to });

module.exports = {
  forbidden: [
    forbid(
      "core-imports-only-core",
      "core is pure, so that the lab can run the real code on simulated clocks, randomness and transport.",
      { path: core },
      { pathNot: core },
    ),
    forbid(
      "platform-imports-core-and-node",
      "platform gives core its clock, timers and randomness: knowing anything above core would tie time to one use.",
      { path: "^src/platform/" },
      { pathNot: "^src/(core|platform)/", dependencyTypesNot: ["core"] },
    ),
    forbid(
      "backend-imports-core-and-itself",
      "A backend is an adapter to one store; what two share is core's contract, or one kind of store: the sql- files beside them, and a dialect's names.",
      { path: "^src/backends/([^/]+)/", pathNot: "/open\\.ts$" },
      {
        pathNot: "^src/(core/|dialects/|backends/sql-[^/]+\\.ts$|backends/$1/)",
        dependencyTypesNot: ["core"],
      },
    ),
    forbid(
      "sql-backends-share-no-store",
      "What the backends on SQL servers share is the same for all of them, so it knows none.",
      { path: "^src/backends/[^/]+\\.ts$" },
      { pathNot: "^src/(core/|backends/sql-[^/]+\\.ts$)" },
    ),
    forbid(
      "dialect-imports-core",
      "A dialect is text: backends, fences and patterns quote names alike, and it knows none of them.",
      { path: "^src/dialects/" },
      { pathNot: "^src/(core|dialects)/" },
    ),
    forbid(
      "backend-open-imports-its-backend-and-a-driver",
      "open.ts binds a pure backend to a real client and the real clock; it needs platform and drivers, and no other backend.",
      { path: "^src/backends/([^/]+)/open\\.ts$" },
      {
        pathNot: "^src/(core/|platform/|drivers/|backends/$1/)",
        dependencyTypesNot: ["core", ...npmPackage],
      },
    ),
    forbid(
      "backend-knows-no-lease",
      "A backend answers single calls and does no clock arithmetic; leases, renewal and waiting are core's decision.",
      { path: "^src/backends/" },
      { path: machinery },
    ),
    forbid(
      "node-only-where-it-is-the-medium",
      "A backend or fence uses node: only where that is the medium or the wire (files, sockets); elsewhere its client does the I/O.",
      { path: "^src/(backends|fences)/(?!(sqlite|zookeeper|file)/)" },
      { dependencyTypes: ["core"] },
    ),
    forbid(
      "driver-imports-core-and-platform",
      "A driver only loads a client library, for a backend and a fence alike, so it cannot know either.",
      { path: "^src/drivers/([^/]+)/" },
      {
        pathNot: "^src/(core/|platform/|drivers/$1/|drivers/(connecting|missing-library|tls-hint|tls-settings)\\.ts)",
        dependencyTypesNot: ["core", ...npmPackage],
      },
    ),
    forbid(
      "driver-knows-no-lease",
      "A driver loads a client library and translates its errors; it has no use for leases.",
      { path: "^src/drivers/" },
      { path: machinery },
    ),
    forbid(
      "only-loaders-import-packages",
      "Client libraries are optional: the root must load without them, so only open.ts files and src/drivers name a package.",
      { path: "^src/", pathNot: loaders },
      { dependencyTypes: npmPackage },
    ),
    forbid(
      "only-loaders-use-drivers",
      "One loader per process opens a client library; code that is given a client stays testable without it.",
      { path: "^src/", pathNot: loaders },
      { path: "^src/drivers/" },
    ),
    forbid(
      "only-connect-and-open-open-clients",
      "Everything else is given its store, so that a simulated one fits and nothing loads a client by accident.",
      { path: "^src/", pathNot: "^src/(connect\\.ts|cli/store\\.ts|.+/open\\.ts)$" },
      { path: "^src/(?!drivers/).+/open\\.ts$" },
    ),
    forbid(
      "fence-knows-tokens-not-leases",
      "A fence guards a resource that may know no lock at all: tokens, proofs and errors are enough.",
      { path: "^src/fences/" },
      { path: `${machinery}|^src/core/backend|^src/backends/|^src/connect\\.ts$` },
    ),
    forbid(
      "fence-imports-contract-and-itself",
      "Fences share the files directly under src/fences and nothing of one another.",
      { path: "^src/fences/([^/]+)/", pathNot: "/open\\.ts$" },
      {
        pathNot: "^src/(core/|dialects/|fences/[^/]+\\.ts$|fences/$1/)",
        dependencyTypesNot: ["core"],
      },
    ),
    forbid(
      "fence-open-imports-its-fence-and-a-driver",
      "open.ts binds a pure fence to a real client and the real clock; it needs platform and drivers, and no other fence.",
      { path: "^src/fences/([^/]+)/open\\.ts$" },
      {
        pathNot: "^src/(core/|dialects/|platform/|drivers/|fences/[^/]+\\.ts$|fences/$1/)",
        dependencyTypesNot: ["core", ...npmPackage],
      },
    ),
    forbid(
      "fence-contract-imports-core",
      "The files that all fences share cannot depend on one of them.",
      { path: "^src/fences/[^/]+\\.ts$" },
      { pathNot: "^src/(core/|dialects/|fences/[^/]+\\.ts$)" },
    ),
    forbid(
      "patterns-are-siblings-over-core",
      "Election, claims and the other patterns stand on core and, where their records are rows, on src/sql; importing each other would make one the base of the rest.",
      { path: `^src/(${patterns})/`, pathNot: "/open\\.ts$" },
      { pathNot: `^src/(core/|fences/contract\\.ts$|sql/|$1/)` },
    ),
    forbid(
      "pattern-open-imports-its-pattern-and-a-driver",
      "open.ts binds a pure pattern to a real client and the real clock; it needs platform and drivers, and no other pattern.",
      { path: `^src/(${patterns})/open\\.ts$` },
      {
        pathNot: `^src/(core/|platform/|drivers/|fences/contract\\.ts$|sql/|$1/)`,
        dependencyTypesNot: ["core", ...npmPackage],
      },
    ),
    forbid(
      "sql-imports-core",
      "What the patterns over rows share knows none of them, and no client library outside its open.ts.",
      { path: "^src/sql/", pathNot: "/open\\.ts$" },
      { pathNot: "^src/(core|dialects|sql)/" },
    ),
    forbid(
      "sql-open-imports-drivers",
      "open.ts binds the shared store to real clients and the real clock, for every pattern alike.",
      { path: "^src/sql/open\\.ts$" },
      { pathNot: "^src/(core|dialects|platform|drivers|sql)/" },
    ),
    forbid(
      "testing-imports-core",
      "A third party runs the suite against its own backend, so it brings the contract and no store.",
      { path: "^src/testing/" },
      { pathNot: "^src/(core/|testing/|fences/contract\\.ts$)", dependencyTypesNot: ["core"] },
    ),
    forbid(
      "testing-brings-no-runner",
      "The runner is passed in, so that the suite runs under any of them.",
      { path: "^src/testing/" },
      { path: "^node:test$|^test$|node_modules/", dependencyTypes: ["core", ...npmPackage] },
    ),
    forbid(
      "lab-uses-no-real-backend",
      "The lab simulates the stores; a real one would bring real time into a seeded run. Redlock's majority is pure logic and the subject itself, so it runs over simulated servers; what opens clients stays out.",
      { path: "^src/lab/" },
      {
        pathNot: `^src/(core|lab|fences|${patterns})/|^src/backends/redlock/(?!open\\.ts$)`,
        dependencyTypesNot: ["core"],
      },
    ),
    forbid(
      "server-is-given-a-backend",
      "The server keeps no lock state and opens no store: whoever starts it chooses.",
      { path: "^src/server/" },
      { path: "^src/(backends|drivers|connect\\.ts)" },
    ),
    forbid(
      "web-sees-the-server-contract-only",
      "The page runs in a browser: it may know the shape of an answer and none of the code behind it.",
      { path: "^web/" },
      { path: "^src/", pathNot: "^src/server/contract\\.ts$" },
    ),
    forbid(
      "root-exports-core-and-connect",
      "The root entry lists public names; everything else has a subpath, so that it loads only what is used.",
      { path: "^src/index\\.ts$" },
      { pathNot: "^src/(core/.+|connect)\\.ts$" },
    ),
    forbid(
      "connect-opens-backends",
      "connect turns a URL into a backend through that backend's open.ts and knows no store itself.",
      { path: "^src/connect\\.ts$" },
      { pathNot: "^src/(store-url\\.ts$|core/|platform/|backends/[^/]+/open\\.ts$)" },
    ),
    forbid(
      "nobody-imports-cli",
      "The command is a user of the library like any other.",
      { pathNot: "^src/cli/" },
      { path: "^src/cli/" },
    ),
    forbid(
      "only-cli-imports-server",
      "The server is started by the command; the library never needs it.",
      { path: "^src/", pathNot: "^src/(cli|server)/" },
      { path: "^src/server/" },
    ),
    forbid(
      "no-cycles",
      "Two files in a cycle are one file that cannot be read in any order.",
      {},
      { circular: true },
    ),
    forbid(
      "no-orphans",
      "A file that nothing imports and that imports nothing is dead, or not wired up yet.",
      { orphan: true, path: "^src/" },
      {},
    ),
    forbid(
      "no-unresolved",
      "An import that cannot be resolved fails at run time.",
      { path: "^src/" },
      { couldNotResolve: true },
    ),
  ],
  options: {
    tsPreCompilationDeps: true,
    tsConfig: { fileName: "tsconfig.json" },
    doNotFollow: { path: "node_modules" },
    enhancedResolveOptions: {
      exportsFields: ["exports"],
      conditionNames: ["types", "import", "node", "default"],
    },
  },
};
