import { observedStore, replicatedPair, sessionStore, singleStore } from "../../src/lab/index.js";
import type { MakeStore } from "../../src/lab/simulation.js";
import { runConformance } from "../../src/testing/conformance.js";
import { labSubject } from "./lab-models-subject.js";
import { vitestRunner } from "./vitest-runner.js";
import { describe } from "vitest";

const MODELS: Readonly<Record<string, MakeStore>> = {
  "a single store that is polled": singleStore({ waiting: "poll" }),
  "a single store that tells of releases": singleStore({ waiting: "notify" }),
  "a single store with a queue": singleStore({ waiting: "queue" }),
  "a pair with a replica": replicatedPair,
  "a session store": (world) => sessionStore(world),
  "a store that compares no clocks": observedStore,
};

for (const [name, make] of Object.entries(MODELS)) {
  const subject = labSubject(make);
  describe(name, async () => await runConformance(subject, vitestRunner()));
}
