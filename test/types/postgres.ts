import type { Client, Pool, PoolClient } from "pg";
import type { Sql, TransactionSql } from "postgres";
import { postgresAdvisory, withAdvisoryXactLock } from "../../src/backends/postgres-advisory/open.js";
import { postgres } from "../../src/backends/postgres/open.js";

// Clients of both libraries fit as they are, with the types that the libraries bring.

declare const pool: Pool;
declare const client: Client;
declare const pooled: PoolClient;
declare const sql: Sql;
declare const tx: TransactionSql;
declare const work: () => Promise<number>;

await postgres(pool);
await postgres(sql);
await postgresAdvisory(client);
await postgresAdvisory(sql);
export const answers: readonly number[] = [
  await withAdvisoryXactLock(client, "x", work),
  await withAdvisoryXactLock(pooled, "x", work),
  await withAdvisoryXactLock(tx, "x", work),
];
