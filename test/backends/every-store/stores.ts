/** Every kind of store with tokens, for suites that are alike on all; one more is a line here. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { describe } from "vitest";
import type { Backend } from "../../../src/core/backend.js";
import { Tenure } from "../../../src/core/tenure.js";
import { platform } from "../../../src/platform/index.js";
import { readyTable } from "../../conformance/dynamodb-subject.js";
import { consulProgram, startConsul } from "../../servers/consul.js";
import { dynaliteProgram, startDynamodb } from "../../servers/dynamodb.js";
import { etcdProgram, startEtcd } from "../../servers/etcd.js";
import { describeOn, describeOptional, type Program } from "../../servers/find.js";
import { mariadbProgram, startMariadb } from "../../servers/mariadb.js";
import { postgresProgram, startPostgres } from "../../servers/postgres.js";
import { redisProgram, startRedis } from "../../servers/redis.js";
import { startZookeeper, zookeeperProgram } from "../../servers/zookeeper.js";
import { BACKENDS, type Kind } from "./backends.js";

/** A store that runs. */
export interface Started {
  readonly url: string;
  dispose(): unknown;
}

/** One kind of store. */
export interface Store {
  readonly title: Kind;
  readonly program?: Program;
  /** Whether no package brings the program. */
  readonly isRare?: boolean;
  /** Long enough that a busy machine renews in time, and an answer does not come too late. */
  readonly ttlMs: number;
  /** How long after a TTL the store may let the next one in. */
  readonly slackMs: number;
  readonly start: () => Started | Promise<Started>;
  readonly backend: (url: string) => Backend | Promise<Backend>;
}

function startFile(): Started {
  const folder = mkdtempSync(path.join(tmpdir(), "tenure-store-"));
  const dispose = (): void => rmSync(folder, { recursive: true, force: true });
  return { url: path.join(folder, "locks.db"), dispose };
}

async function startTable(): Promise<Started> {
  const server = await startDynamodb(dynaliteProgram);
  const url = `${server.url}/${await readyTable(server)}`;
  return { url, dispose: () => server.dispose() };
}

function store(title: Kind, start: Store["start"], about: Partial<Store>): Store {
  // A follower may have to ask, and then pauses for a second at most.
  return { title, start, ttlMs: 2_000, slackMs: 3_000, backend: BACKENDS[title], ...about };
}

/** All kinds. */
export const STORES: readonly Store[] = [
  store("sqlite", startFile, {}),
  store("redis", () => startRedis(), { program: redisProgram }),
  store("postgres", () => startPostgres(), { program: postgresProgram }),
  store("mysql", () => startMariadb(), { program: mariadbProgram }),
  store("etcd", () => startEtcd(), { program: etcdProgram, slackMs: 4_000 }),
  store("zookeeper", () => startZookeeper(), { program: zookeeperProgram }),
  store("dynamodb", startTable, { program: dynaliteProgram }),
  store("consul", () => startConsul(), { program: consulProgram, isRare: true }),
];

/** Starts a store, and has the client library loaded: on a busy machine that takes seconds. */
export async function startWarm({ start, backend }: Store): Promise<Started> {
  const started = await start();
  const tenure = await Tenure.open(await backend(started.url), platform(), { timeout: 30_000 });
  await tenure.close();
  return started;
}

/** A suite of one kind of store; a counted skip where its program is missing. */
export function describeStore({ title, program, isRare }: Store, define: () => void): void {
  if (program === undefined) describe(title, define);
  else (isRare === true ? describeOptional : describeOn)(program, title, define);
}
