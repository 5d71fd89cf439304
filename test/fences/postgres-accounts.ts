import { Pool } from "pg";
import { afterAll, afterEach, beforeAll, beforeEach, expect } from "vitest";
import { createPostgresFence, type PostgresFence } from "../../src/fences/postgres/index.js";
import { postgresParts } from "../../src/fences/postgres/open.js";
import { startPostgres, type PostgresServer } from "../servers/postgres.js";
import { bearer } from "./bearers.js";
import { testRuntime } from "./runtime.js";

/** A server with a table of accounts, its fence, and connections that know nothing of it. */
export interface AccountsBench {
  readonly server: PostgresServer;
  readonly pool: Pool;
  /** Some other program's connections. */
  readonly other: Pool;
  readonly fence: PostgresFence;
  readonly events: ReturnType<typeof testRuntime>["events"];
  /** Number of the test: roles outlive its schema. */
  readonly count: number;
  /** Schema of the fence's own tables, quoted. */
  fenceSchema(): string;
  /** Makes the table and fences it. */
  accounts(more?: string): Promise<void>;
  /** A fenced write of the holder of `token`. */
  write(resource: string, text: string, token?: number): Promise<unknown>;
  all(text: string): Promise<unknown[]>;
  /** A write of another program, which must be refused. */
  refused(text: string): Promise<void>;
}

/** Sets the bench up for the tests of the describe block that calls it. */
export function accountsBench(): AccountsBench {
  let server: PostgresServer;
  let pool: Pool;
  /** Some other program's connections. */
  let other: Pool;
  let fence: PostgresFence;
  let events: ReturnType<typeof testRuntime>["events"];
  let count = 0;

  beforeAll(async () => void (server = await startPostgres()));
  afterAll(() => server.dispose());
  beforeEach(async () => {
    const app = `app${count}`;
    await server.query(`CREATE SCHEMA ${app}`);
    const settings = { connectionString: server.url, options: `-c search_path=${app}` };
    // One connection, so that what is left over on it would be found by the next statement.
    pool = new Pool({ ...settings, max: 1 });
    other = new Pool({ ...settings, max: 2 });
    const { runtime, events: published } = testRuntime();
    events = published;
    const schema = `Fence "${count++}" 's`;
    fence = createPostgresFence({ ...postgresParts(pool), runtime }, { schema });
  });
  afterEach(async () => {
    await pool.end();
    await other.end();
  });

  const fenceSchema = (): string => `"Fence ""${count - 1}"" 's"`;

  async function accounts(more = ""): Promise<void> {
    await other.query(`CREATE TABLE account (
      id integer PRIMARY KEY, owner text NOT NULL, code text UNIQUE, balance integer) ${more}`);
    await fence.install({ table: "account", resource: "owner" });
  }

  const write = async (resource: string, text: string, token = 5): Promise<unknown> => {
    const handle = await fence.arm(bearer(token, { holder: `h${token}` }), resource);
    return await handle.write((tx) => tx.query(text));
  };
  const all = async (text: string): Promise<unknown[]> => (await other.query(text)).rows;
  const refused = async (text: string): Promise<void> => {
    await expect(other.query(text), text).rejects.toMatchObject({ code: "TN010" });
  };

  return {
    get server() {
      return server;
    },
    get pool() {
      return pool;
    },
    get other() {
      return other;
    },
    get fence() {
      return fence;
    },
    get count() {
      return count;
    },
    get events() {
      return events;
    },
    fenceSchema,
    accounts,
    write,
    all,
    refused,
  };
}
