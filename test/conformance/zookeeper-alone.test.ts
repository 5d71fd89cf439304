import { afterAll } from "vitest";
import { runConformance } from "../../src/testing/conformance.js";
import { describeOn } from "../servers/find.js";
import { startZookeeper, zookeeperProgram } from "../servers/zookeeper.js";
import { vitestRunner } from "./vitest-runner.js";
import { TICK_MS, zookeeperSubject } from "./zookeeper-subject.js";

describeOn(zookeeperProgram, "zookeeper alone", async () => {
  const server = await startZookeeper();
  afterAll(() => server.dispose());
  await runConformance(
    zookeeperSubject(server.url, 2 * TICK_MS, () => server.restart()),
    vitestRunner(),
  );
});
