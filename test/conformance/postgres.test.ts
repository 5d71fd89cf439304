import { afterAll } from "vitest";
import { runConformance } from "../../src/testing/conformance.js";
import { describeOn, findBinary } from "../servers/find.js";
import { postgresProgram, startPostgres } from "../servers/postgres.js";
import { postgresSubject } from "./postgres-subject.js";
import { vitestRunner } from "./vitest-runner.js";

const server = findBinary(postgresProgram) === undefined ? undefined : await startPostgres();
afterAll(() => server?.dispose());

describeOn(postgresProgram, "through pg", async () => {
  const subject = postgresSubject(server!, () => server!.url, { library: "pg" });
  await runConformance(subject, vitestRunner("postgres"));
});
