// A vitest reporter for verify.mjs: how many tests passed, failed and were skipped, and why.
// vitest's own JSON report leaves out the reason that `context.skip("reason")` gives.
import { writeFileSync } from "node:fs";
import path from "node:path";

/** What an error says, and where in this project it was thrown. */
function reasonOf({ message = "", stacks = [] }) {
  const lines = message.split("\n").slice(0, 12);
  const at = stacks.map(({ file, line }) => `${path.relative(process.cwd(), file)}:${line}`);
  return [...lines, ...at.slice(0, 4)].map((line) => `\n      ${line}`).join("");
}

export default class CountReporter {
  /** Called by vitest when all files are done. */
  onTestRunEnd(modules, unhandledErrors) {
    const sum = { passed: 0, failed: 0, skipped: 0, notes: [], files: {} };
    const fail = (what) => {
      sum.failed += 1;
      sum.notes.push(`FAILED ${what}`);
    };
    for (const module of modules) {
      const file = path.relative(process.cwd(), module.moduleId);
      // A file or a suite can fail outside of any test: in its imports, or in a hook.
      for (const error of module.errors()) fail(`${file}: ${error.message}`);
      for (const suite of module.children.allSuites()) {
        for (const error of suite.errors()) fail(`${file}: ${suite.fullName}: ${error.message}`);
      }
      const count = (sum.files[file] = { passed: 0, failed: 0, skipped: 0 });
      for (const test of module.children.allTests()) {
        const result = test.result();
        count[result.state] += 1;
        if (result.state === "passed") sum.passed += 1;
        else if (result.state === "failed") {
          fail(`${file}: ${test.fullName}${result.errors.map(reasonOf).join("")}`);
        } else {
          sum.skipped += 1;
          const why = result.note ? ` (${result.note})` : "";
          sum.notes.push(`skipped ${file}: ${test.fullName}${why}`);
        }
      }
    }
    for (const error of unhandledErrors) fail(`outside of the tests: ${error.message}`);
    writeFileSync(process.env.TENURE_VERIFY_REPORT, JSON.stringify(sum));
  }
}
