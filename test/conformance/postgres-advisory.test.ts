import { setTimeout as sleep } from "node:timers/promises";
import { afterAll } from "vitest";
import { postgresAdvisory, schemaSql } from "../../src/backends/postgres-advisory/open.js";
import type { Backend } from "../../src/core/backend.js";
import { Tenure } from "../../src/core/tenure.js";
import { platform } from "../../src/platform/index.js";
import { runConformance } from "../../src/testing/conformance.js";
import { realTime, type Subject } from "../../src/testing/subject.js";
import { describeOn, findBinary } from "../servers/find.js";
import { postgresProgram, startPostgres } from "../servers/postgres.js";
import { vitestRunner } from "./vitest-runner.js";

// One case has 20 contenders at once, and each opens sessions of its own.
const server =
  findBinary(postgresProgram) === undefined
    ? undefined
    : await startPostgres({ max_connections: 150 });
afterAll(() => server?.dispose());

const handles = (): number =>
  process.getActiveResourcesInfo().filter((kind) => /Wrap|Timeout|Immediate/.test(kind)).length;

let schemas = 0;

const subject: Subject = {
  time: realTime(sleep),
  connect: (backend) => Tenure.open(backend, platform(), { purpose: "efficiency" }),
  shortTtlMs: 300,
  expirySlackMs: 200,
  // Locks are the database's, not the schema's.
  runId: "advisory",
  async open() {
    const schema = `case ${++schemas}`;
    const handlesBefore = handles();
    const url = server!.url;
    const lease = `"${schema}".advisory_lease`;
    const connect = (): Promise<Backend> => postgresAdvisory(url, { library: "pg", schema });
    return {
      connect,
      restart: () => server!.restart(),
      // The lock is the record: it ends with its session.
      deleteRecord: async (name) =>
        void (await server!.query(
          `SELECT pg_terminate_backend(pid, 5000) FROM ${lease} WHERE name = $1`,
          [name],
        )),
      sweep: async () =>
        void (await server!.query(
          `DELETE FROM ${lease} WHERE pid NOT IN (SELECT pid FROM pg_locks)`,
        )),
      async presetToken(_name, token) {
        await server!.query(schemaSql({ schema }));
        await server!.query(`UPDATE "${schema}".advisory_counter SET token = $1`, [String(token)]);
      },
      openHandles: () => handles() - handlesBefore,
      dispose: async () => void (await server!.query(`DROP SCHEMA "${schema}" CASCADE`)),
    };
  },
};

describeOn(postgresProgram, "session locks", async () => {
  await runConformance(subject, vitestRunner("postgres-advisory"));
});
