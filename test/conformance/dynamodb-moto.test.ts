import { afterAll, test } from "vitest";
import { runConformance } from "../../src/testing/conformance.js";
import { motoProgram, startDynamodb } from "../servers/dynamodb.js";
import { describeOn } from "../servers/find.js";
import { dynamodbSubject, readyTable } from "./dynamodb-subject.js";
import { vitestRunner } from "./vitest-runner.js";

/** This counts what the process has open. */
const ALONE = /^close-leaves-nothing:/;

describeOn(motoProgram, "dynamodb on moto", async () => {
  const server = await startDynamodb(motoProgram);
  afterAll(() => server.dispose());
  const table = await readyTable(server);
  const runner = vitestRunner(undefined, { concurrent: true });
  await runConformance(dynamodbSubject(server, table, { data: true }), {
    ...runner,
    test: (title, run) => (ALONE.test(title) ? test(title, run) : runner.test(title, run)),
  });
});
