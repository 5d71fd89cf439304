import { runConformance } from "../../src/testing/conformance.js";
import { memorySubject } from "./memory-subject.js";
import { vitestRunner } from "./vitest-runner.js";

await runConformance(memorySubject(), vitestRunner("memory"));
