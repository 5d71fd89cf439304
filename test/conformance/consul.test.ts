import { afterAll, test } from "vitest";
import { runConformance } from "../../src/testing/conformance.js";
import { consulProgram, startConsul } from "../servers/consul.js";
import { describeOptional, findBinary } from "../servers/find.js";
import { consulSubject } from "./consul-subject.js";
import { vitestRunner } from "./vitest-runner.js";

const server = findBinary(consulProgram) === undefined ? undefined : await startConsul();
afterAll(() => server?.dispose());

/** These restart the server, or count what the process has open. */
const ALONE = /^(token-after-restart|store-id-restart|close-leaves-nothing):/;

describeOptional(consulProgram, "on one server", async () => {
  const runner = vitestRunner(undefined, { concurrent: true });
  await runConformance(consulSubject(server!, true), {
    ...runner,
    test: (title, run) => (ALONE.test(title) ? test(title, run) : runner.test(title, run)),
  });
});
