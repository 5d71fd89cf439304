import { describe, test } from "vitest";
import { runConformance } from "../../src/testing/conformance.js";
import { memorySubject, type MemoryVariant } from "./memory-subject.js";
import {
  noticesOver,
  observedOver,
  pollingOver,
  sessionsOver,
  tokenlessOver,
} from "./variants.js";

const variants: Readonly<Record<string, MemoryVariant>> = {
  "a store without queue": { wrap: pollingOver },
  "a store with notices": { wrap: noticesOver },
  "a store without tokens": { wrap: tokenlessOver },
  "a store whose leases expire by observation": { wrap: observedOver },
  "a store with sessions": { wrap: sessionsOver },
  "a store that restarts": { restarts: () => ({ storeId: "same" }) },
};

for (const [title, variant] of Object.entries(variants)) {
  const tests: (() => void)[] = [];
  await runConformance(memorySubject(variant), {
    test: (name, run) => tests.push(() => test(name, run)),
    skip: (name, reason) => tests.push(() => test(name, ({ skip }) => skip(reason))),
  });
  describe(title, () => tests.forEach((register) => register()));
}
