import { afterAll, test } from "vitest";
import { runConformance } from "../../src/testing/conformance.js";
import { dynaliteProgram, startDynamodb } from "../servers/dynamodb.js";
import { describeOn } from "../servers/find.js";
import { dynamodbSubject, readyTable } from "./dynamodb-subject.js";
import { vitestRunner } from "./vitest-runner.js";

/** These restart the server, count what the process has open, or empty the table. */
const ALONE = /^(token-after-restart|store-id-restart|close-leaves-nothing):/;

describeOn(dynaliteProgram, "dynamodb on dynalite", async () => {
  const server = await startDynamodb(dynaliteProgram);
  afterAll(() => server.dispose());
  const table = await readyTable(server);
  const runner = vitestRunner("dynamodb", { concurrent: true });
  await runConformance(dynamodbSubject(server, table, { transactions: true }), {
    ...runner,
    test: (title, run) => (ALONE.test(title) ? test(title, run) : runner.test(title, run)),
  });
});
