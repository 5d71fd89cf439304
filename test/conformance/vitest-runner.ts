import { mkdirSync, writeFileSync } from "node:fs";
import path from "node:path";
import { test } from "vitest";
import type { Runner } from "../../src/testing/conformance.js";

/** How the suite is run. */
interface Pace {
  /**
   * Several cases at a time, for a store whose cases mostly wait. Default false. Those about the
   * whole tenure are counted in fractions of a second, and stay alone.
   */
  readonly concurrent?: boolean;
}

/**
 * Runs the suite with vitest. `store` is the row of the README's matrix that this run is for: under
 * `npm run verify` its manifest is kept for the matrix, which is checked against it.
 */
export function vitestRunner(store?: string, { concurrent = false }: Pace = {}): Runner {
  return {
    test: (title, run) =>
      concurrent && !title.startsWith("tenure-") ? test.concurrent(title, run) : test(title, run),
    skip: (title, reason) => test(title, ({ skip }) => skip(reason)),
    begin(manifest) {
      const report = process.env["TENURE_VERIFY_REPORT"];
      if (report === undefined || store === undefined) return;
      const folder = path.join(path.dirname(report), "manifests");
      mkdirSync(folder, { recursive: true });
      writeFileSync(path.join(folder, `${store}.json`), JSON.stringify(manifest));
    },
  };
}
