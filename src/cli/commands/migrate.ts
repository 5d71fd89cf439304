/** `tenure migrate --print`: the SQL of the tables that a store needs. */
import { parse, unexpected, UsageError } from "../arguments.js";
import type { Command } from "../command.js";
import { EXIT } from "../exit-codes.js";
import { print } from "../output.js";
import { tablesSql, type TablePlan } from "../../sql/tables.js";
import { chooseStore } from "../store.js";

const HELP = `Prints the SQL that makes the tables of a store, for those who make tables by hand.

usage: tenure migrate --print [--pattern NAME] [--backend NAME | --store URL] [--schema NAME]
       tenure migrate --print --backend dynamodb [--table NAME] [--form FORM]

  tenure migrate --print --backend postgres | psql "$DATABASE_URL"
  tenure migrate --print --store postgres://db/app --schema locks
  tenure migrate --print --pattern claims --backend mysql
  tenure migrate --print --backend dynamodb --form terraform

The role that runs it owns the tables; the roles of your programs need USAGE on the schema and
SELECT, INSERT, UPDATE and DELETE on its tables. It can be run again: what is there is kept.
No connection is made.

flags
  --print         print it; nothing else is done
  --pattern NAME  tables of a pattern, in sqlite, postgres or mysql: claims inbox idempotency
                  reservations cas; in sqlite or postgres: queue outbox schedule
  --backend NAME  postgres (lease rows), postgres-advisory (session locks), mysql or dynamodb
  --store URL     the store, whose URL names the backend; else $TENURE_STORE
  --schema NAME   schema for the tables; default tenure, on mysql the connection's own
  --table NAME    dynamodb: name of the table; default that of the URL, else tenure
  --form FORM     dynamodb: json (default, for create-table), cloudformation or terraform

exit code: 0 printed   64 wrong usage`;

const FLAGS = {
  print: { type: "boolean" },
  pattern: { type: "string" },
  backend: { type: "string" },
  store: { type: "string" },
  schema: { type: "string" },
  table: { type: "string" },
  form: { type: "string" },
} as const;

const USAGE = "tenure migrate --print --backend postgres";

type SchemaSql = (options: { readonly schema?: string }) => string;

const SCRIPTS: Readonly<Record<string, () => Promise<{ readonly schemaSql: SchemaSql }>>> = {
  postgres: () => import("../../backends/postgres/schema.js"),
  "postgres-advisory": () => import("../../backends/postgres-advisory/schema.js"),
  mysql: () => import("../../backends/mysql/schema.js"),
};

const PATTERNS: Readonly<Record<string, () => Promise<TablePlan>>> = {
  claims: async () => (await import("../../claims/tables.js")).CLAIM_TABLES,
  inbox: async () => (await import("../../inbox/tables.js")).INBOX_TABLES,
  idempotency: async () => (await import("../../idempotency/tables.js")).IDEMPOTENCY_TABLES,
  reservations: async () => (await import("../../reservations/tables.js")).RESERVATION_TABLES,
  cas: async () => (await import("../../cas/tables.js")).CAS_TABLES,
  queue: async () => (await import("../../queue/tables.js")).QUEUE_TABLES,
  outbox: async () => (await import("../../outbox/tables.js")).OUTBOX_TABLES,
  schedule: async () => (await import("../../schedule/tables.js")).SCHEDULE_TABLES,
};

/** Patterns that MySQL does not have: see their guides. */
const NOT_IN_MYSQL: readonly string[] = ["queue", "outbox", "schedule"];

/** Backend by URL scheme. */
const SCHEMES: Readonly<Record<string, string>> = {
  postgres: "postgres",
  postgresql: "postgres",
  "postgres+advisory": "postgres-advisory",
  mariadb: "mysql",
};

async function run(args: readonly string[]): Promise<number> {
  const { values, operands } = parse(args, FLAGS);
  if (operands[0] !== undefined) throw unexpected(operands[0], USAGE);
  if (values.print !== true) {
    throw new UsageError("--print is missing: nothing else is done", USAGE);
  }
  if (values.backend !== undefined && values.store !== undefined) {
    throw new UsageError("--backend and --store exclude each other", USAGE);
  }
  const backend = values.backend ?? backendOf(values.store);
  if (values.pattern !== undefined) {
    print(await patternSql(values.pattern, backend, values.schema));
    return EXIT.ok;
  }
  if (backend === "dynamodb") {
    print(await dynamodbTable(values.table ?? tableOf(values.store), values.form));
    return EXIT.ok;
  }
  if ((values.table ?? values.form) !== undefined) {
    throw new UsageError("--table and --form are for --backend dynamodb", USAGE);
  }
  const load = Object.hasOwn(SCRIPTS, backend) ? SCRIPTS[backend] : undefined;
  if (load === undefined) {
    const known = [...Object.keys(SCRIPTS), "dynamodb"].join(" ");
    const hint = `stores with tables to make by hand are ${known}`;
    throw new UsageError(`${JSON.stringify(backend)} has no tables to print`, hint);
  }
  const { schemaSql } = await load();
  print(schemaSql(values.schema === undefined ? {} : { schema: values.schema }).trimEnd());
  return EXIT.ok;
}

async function dynamodbTable(
  table: string | undefined,
  form: string | undefined = "json",
): Promise<string> {
  const { TABLE_FORMS, tableDefinition } = await import("../../backends/dynamodb/table.js");
  const known = TABLE_FORMS.find((one) => one === form);
  if (known === undefined) {
    const hint = `forms are ${TABLE_FORMS.join(" ")}`;
    throw new UsageError(`${JSON.stringify(form)} is no form of a table`, hint);
  }
  return tableDefinition({ form: known, ...(table === undefined ? {} : { table }) });
}

/** The table in the URL of a store; undefined where the URL does not say. */
function tableOf(store: string | undefined): string | undefined {
  const { url } = chooseStore(store);
  return /^dynamodb:\/\/(?:[^/?#]*\/)?([^/?#]+)(?:[?#]|$)/.exec(url)?.[1];
}

async function patternSql(
  pattern: string,
  backend: string,
  schema: string | undefined,
): Promise<string> {
  const plan = Object.hasOwn(PATTERNS, pattern) ? PATTERNS[pattern] : undefined;
  if (plan === undefined) {
    const hint = `patterns with tables are ${Object.keys(PATTERNS).join(" ")}`;
    throw new UsageError(`${JSON.stringify(pattern)} has no tables to print`, hint);
  }
  if (backend !== "sqlite" && backend !== "postgres" && backend !== "mysql") {
    const hint = "patterns keep their tables in sqlite postgres mysql";
    throw new UsageError(`${JSON.stringify(backend)} has no tables of patterns`, hint);
  }
  if (backend === "mysql" && NOT_IN_MYSQL.includes(pattern)) {
    throw new UsageError(`${pattern} is not kept in mysql`, "it is in sqlite and postgres");
  }
  const options = schema === undefined ? {} : { schema };
  return tablesSql(await plan(), backend, options).trimEnd();
}

function backendOf(store: string | undefined): string {
  const { url } = chooseStore(store);
  const scheme = url.slice(0, Math.max(0, url.indexOf(":")));
  // A URL may carry a password: only its scheme is repeated.
  return Object.hasOwn(SCHEMES, scheme) ? SCHEMES[scheme]! : scheme;
}

/** The verb. */
export const command: Command = { help: HELP, run };
