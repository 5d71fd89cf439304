import { afterAll } from "vitest";
import { runConformance } from "../../src/testing/conformance.js";
import { describeOn } from "../servers/find.js";
import { startEnsemble, zookeeperProgram } from "../servers/zookeeper.js";
import { vitestRunner } from "./vitest-runner.js";
import { TICK_MS, zookeeperSubject } from "./zookeeper-subject.js";

describeOn(zookeeperProgram, "zookeeper ensemble", async () => {
  const ensemble = await startEnsemble();
  afterAll(() => ensemble.dispose());
  // A third of the longest TTL that a case lets expire.
  await runConformance(
    zookeeperSubject(ensemble.url, 600 + 2 * TICK_MS),
    vitestRunner("zookeeper"),
  );
});
