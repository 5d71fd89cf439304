import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { pathToFileURL } from "node:url";
import { build, type Plugin } from "esbuild";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type * as ExamineModule from "../../src/lab/scenarios/examine.js";
import type * as PlayModule from "../../src/lab/scenarios/play.js";
import type * as ShrinkModule from "../../src/lab/shrink.js";
import type * as SoakModule from "../../src/lab/soak.js";

const root = path.resolve(import.meta.dirname, "../..");
const MOST_SEEDS = 300;
const MOST_EVENTS = 15;
/** Short runs, of which it takes some more. */
const FOR_MS = 100_000;

type Lab = typeof ShrinkModule & typeof SoakModule & typeof ExamineModule & typeof PlayModule;

/** One place of the real core, and what a mistake makes of it. */
interface Bug {
  readonly file: string;
  readonly is: string;
  readonly becomes: string;
}

const BUGS: Readonly<Record<string, Bug>> = {
  "the deadline of a grant counts from its reply": {
    file: "src/core/attempt.ts",
    is: "lease = this.#lease(answer.grant, contender, sentAt);",
    becomes: "lease = this.#lease(answer.grant, contender, now(this.#runtime.clock));",
  },
  "an attempt that is given up is not released": {
    file: "src/core/cleanup.ts",
    is: "void this.#ask(orphan);\n  }",
    becomes: "this.#end(orphan, true);\n  }",
  },
};

/** Changes the text of one file as it is loaded. */
function plant({ file, is, becomes }: Bug): Plugin {
  const filter = new RegExp(`${file.replaceAll("/", "[\\\\/]")}$`);
  return {
    name: "plant",
    setup: ({ onLoad }) => {
      onLoad({ filter }, ({ path: found }) => {
        const text = readFileSync(found, "utf8");
        if (text.split(is).length !== 2) throw new Error(`${file} does not read ${is} once`);
        return { contents: text.replace(is, becomes), loader: "ts" };
      });
    },
  };
}

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(path.join(tmpdir(), "tenure-planted-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** The lab, over a core with a bug, or without. */
async function labWith(bug: Bug | undefined, name: string): Promise<Lab> {
  const outfile = path.join(folder, `${name}.mjs`);
  const contents = `export * from "./soak.js"; export * from "./shrink.js";
    export * from "./scenarios/examine.js"; export * from "./scenarios/play.js";`;
  await build({
    stdin: { contents, resolveDir: path.join(root, "src/lab"), loader: "ts" },
    bundle: true,
    platform: "node",
    format: "esm",
    outfile,
    plugins: bug === undefined ? [] : [plant(bug)],
    logLevel: "silent",
  });
  return (await import(pathToFileURL(outfile).href)) as Lab;
}

describe("a bug in the real core", () => {
  test.each(Object.entries(BUGS))("%s: is found, and shrinks to a few events", async (what, bug) => {
    const { soak, shrink } = await labWith(bug, what.replaceAll(" ", "-"));
    let isFound = false;
    const { runs, violations } = await soak({
      firstSeed: 1,
      seeds: MOST_SEEDS,
      forMs: FOR_MS,
      until: () => isFound,
      onRun: ({ result }) => (isFound = result.violations.length > 0),
    });
    expect(violations, `not found within ${runs} seeds`).not.toEqual([]);
    const [{ seed, store }] = violations as [SoakModule.SoakFind];
    const small = (await shrink({ seed, store, run: { forMs: FOR_MS } }))!;
    expect(small.events).toBeLessThanOrEqual(MOST_EVENTS);
    expect(small.violation.invariant).toBe(violations[0]!.violations[0]!.invariant);
    // It is the bug's: the code as it is holds on the same seed.
    const sound = await labWith(undefined, "sound");
    const same = await sound.soak({ firstSeed: seed, seeds: 1, store, forMs: FOR_MS });
    expect(same.violations).toEqual([]);
  });

  test.each<[string, Bug]>([
    ["B was closed and kept 1 listener on a signal of its caller", {
      file: "src/core/aborting.ts",
      is: `signal.removeEventListener("abort", tell);`,
      becomes: "void tell;",
    }],
    ["B was closed and kept 1 subscription", {
      file: "src/core/waiting.ts",
      is: "await subscription?.[Symbol.asyncDispose]();",
      becomes: "void subscription;",
    }],
  ])("that leaves something behind is told by a scenario: %s", async (text, bug) => {
    const { examine, findScenario } = await labWith(bug, `leaves-${path.basename(bug.file)}`);
    const { violations, wrong } = await examine(findScenario("lost-notice"), {
      ...{ seed: 1, fence: "armed" },
    });
    expect(violations).toContainEqual(expect.objectContaining({ invariant: "I10", text }));
    expect(wrong).toContain("was closed and kept");
  });

  test("cannot be planted where the code reads otherwise", async () => {
    const bug = { file: "src/core/deadline.ts", is: "no such line", becomes: "" };
    await expect(labWith(bug, "nowhere")).rejects.toThrow("does not read no such line once");
  });
});
