import { setTimeout as sleep } from "node:timers/promises";
import type { Backend } from "../../src/core/backend.js";
import { Tenure } from "../../src/core/tenure.js";
import type { PostgresProof } from "../../src/backends/postgres/index.js";
import { postgres, schemaSql, type PostgresOptions } from "../../src/backends/postgres/open.js";
import { platform } from "../../src/platform/index.js";
import { realTime, type Subject } from "../../src/testing/subject.js";
import type { PostgresServer } from "../servers/postgres.js";

/** Sockets and timers that keep the process alive. */
const handles = (): number =>
  process.getActiveResourcesInfo().filter((kind) => /Wrap|Timeout|Immediate/.test(kind)).length;

let schemas = 0;

/** The postgres backend on a real server, each case with a schema of its own. */
export function postgresSubject(
  server: PostgresServer,
  url: () => string,
  options: PostgresOptions,
): Subject {
  return {
    time: realTime(sleep),
    connect: (backend) => Tenure.open(backend, platform(), { purpose: "efficiency" }),
    shortTtlMs: 300,
    async open() {
      const schema = `case ${++schemas}`;
      const handlesBefore = handles();
      const connect = (): Promise<Backend> => postgres(url(), { ...options, schema });
      return {
        connect,
        restart: () => server.restart(),
        deleteRecord: async (name) =>
          void (await server.query(`DELETE FROM "${schema}".lease WHERE name = $1`, [name])),
        sweep: async () =>
          void (await server.query(
            `DELETE FROM "${schema}".lease WHERE expires <= clock_timestamp()`,
          )),
        async presetToken(_name, token) {
          await server.query(schemaSql({ schema }));
          await server.query(`UPDATE "${schema}".counter SET token = $1`, [String(token)]);
        },
        async testProof(proof) {
          const { sql, values } = proof as PostgresProof;
          return (await server.query(sql, values)).length === 1;
        },
        openHandles: () => handles() - handlesBefore,
        dispose: async () => void (await server.query(`DROP SCHEMA "${schema}" CASCADE`)),
      };
    },
  };
}
