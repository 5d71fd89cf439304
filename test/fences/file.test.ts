import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { createHash } from "node:crypto";
import { describe } from "vitest";
import { fileStore } from "../../src/fences/file/index.js";
import type { ReadFile, WriteFile } from "../../src/fences/file/transaction.js";
import { testRuntime } from "./runtime.js";
import { fenceSuite } from "./suite.js";

describe("file fence", () => {
  fenceSuite<WriteFile, ReadFile>({
    name: "file",
    work: "sync",
    open: async () => {
      const root = await mkdtemp(path.join(tmpdir(), "tenure-fence-"));
      const directory = path.join(root, "fenced");
      return {
        store: fileStore(directory, testRuntime().runtime, { pid: process.pid }),
        get: (tx) => (tx.text() === undefined ? undefined : Number(tx.text())),
        put: (tx, _resource, value) => tx.put(String(value)),
        loseMark: async (resource) => {
          const folder = createHash("sha256").update(resource).digest("hex");
          await rm(path.join(directory, folder), { recursive: true });
        },
        close: () => rm(root, { recursive: true }),
      };
    },
  });
});
