import { setTimeout as sleep } from "node:timers/promises";
import { afterAll } from "vitest";
import type { MysqlProof } from "../../src/backends/mysql/index.js";
import { mysql } from "../../src/backends/mysql/open.js";
import { SCHEMA_STATEMENTS } from "../../src/backends/mysql/schema.js";
import type { Backend } from "../../src/core/backend.js";
import { Tenure } from "../../src/core/tenure.js";
import { platform } from "../../src/platform/index.js";
import { runConformance } from "../../src/testing/conformance.js";
import { realTime, type Subject } from "../../src/testing/subject.js";
import { describeOn, findBinary } from "../servers/find.js";
import { mariadbProgram, startMariadb, type MariadbServer } from "../servers/mariadb.js";
import { vitestRunner } from "./vitest-runner.js";

const server = findBinary(mariadbProgram) === undefined ? undefined : await startMariadb();
afterAll(() => server?.dispose());

/** Sockets and timers that keep the process alive. */
const handles = (): number =>
  process.getActiveResourcesInfo().filter((kind) => /Wrap|Timeout|Immediate/.test(kind)).length;

let schemas = 0;

/** The mysql backend on a real server, each case with a schema of its own. */
function subjectOn(mariadb: MariadbServer): Subject {
  return {
    time: realTime(sleep),
    connect: (backend) => Tenure.open(backend, platform(), { purpose: "efficiency" }),
    shortTtlMs: 300,
    async open() {
      const schema = `case ${++schemas}`;
      const handlesBefore = handles();
      const connect = (): Promise<Backend> => mysql(mariadb.url, { schema });
      const run = (text: string, values: readonly unknown[] = []): Promise<object[]> =>
        mariadb.query(text, values);
      return {
        connect,
        restart: () => mariadb.restart(),
        deleteRecord: async (name) =>
          void (await run(`DELETE FROM \`${schema}\`.tenure_lease WHERE name = ?`, [name])),
        sweep: async () => void (await run(`CALL \`${schema}\`.tenure_sweep_1()`)),
        async presetToken(_name, token) {
          const choose = [`CREATE SCHEMA \`${schema}\``, `USE \`${schema}\``];
          await mariadb.script([...choose, ...SCHEMA_STATEMENTS]);
          await run(`UPDATE \`${schema}\`.tenure_counter SET token = ?`, [String(token)]);
        },
        async testProof(proof) {
          const { sql, values } = proof as MysqlProof;
          return (await run(sql, values)).length === 1;
        },
        openHandles: () => handles() - handlesBefore,
        dispose: async () => void (await run(`DROP SCHEMA \`${schema}\``)),
      };
    },
  };
}

describeOn(mariadbProgram, "on MariaDB", async () => {
  await runConformance(subjectOn(server!), vitestRunner("mysql"));
});
