import { createHash } from "node:crypto";
import { mkdtemp, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { UnavailableError } from "../../src/core/errors.js";
import { createFileFence } from "../../src/fences/file/index.js";
import { platform } from "../../src/platform/index.js";
import { bearer } from "./bearers.js";

const resource = "accounts/7";

describe("file fence and its folder", () => {
  let root: string;

  beforeEach(async () => void (root = await mkdtemp(path.join(tmpdir(), "tenure-fence-"))));
  afterEach(() => rm(root, { recursive: true }));

  const directory = (): string => path.join(root, "fenced");
  const folder = (): string =>
    path.join(directory(), createHash("sha256").update(resource).digest("hex"));
  const fence = (): ReturnType<typeof createFileFence> => createFileFence(directory(), platform());

  describe("what is damaged", () => {
    async function armed(): Promise<string> {
      const handle = await fence().arm(bearer(5), resource);
      await handle.write((tx) => tx.put("one hundred"));
      return path.join(folder(), "current");
    }

    it.each([
      ["empty", () => ""],
      ["cut short", (text: string) => text.slice(0, -1)],
      ["edited past the fence", (text: string) => text.replace("hundred", "million")],
      ["given a lower token", (text: string) => text.replace('"token":"5"', '"token":"1"')],
      ["of another form", () => "100"],
    ])("is an error, not a resource without a mark: a file that is %s", async (_, damage) => {
      const file = await armed();
      await writeFile(file, damage(await readFile(file, "utf8")));
      for (const use of [() => fence().mark(resource), () => fence().arm(bearer(9), resource)]) {
        const error = await use().catch((thrown: unknown) => thrown);
        expect(error).toBeInstanceOf(UnavailableError);
        expect(error).toMatchObject({ retryable: false });
        expect((error as Error).message).toContain('no usable mark of "accounts/7"');
      }
    });

    it("is told apart: a file that was copied from another resource", async () => {
      const file = await armed();
      const other = await fence().arm(bearer(5), "accounts/8");
      await other.write((tx) => tx.put("x"));
      const hash = createHash("sha256").update("accounts/8").digest("hex");
      await rename(path.join(directory(), hash, "current"), file);
      await expect(fence().mark(resource)).rejects.toThrow(/belongs to another resource/);
    });

    it("says how to repair a lock file that was deleted", async () => {
      await armed();
      await rm(path.join(folder(), "free"));
      await expect(fence().arm(bearer(9), resource)).rejects.toThrow(/create an empty file named/);
    });

    it("says which folder is missing", async () => {
      const lost = createFileFence(path.join(root, "no", "such"), platform());
      await expect(lost.mark(resource)).rejects.toThrow(/no does not exist/);
    });
  });

  it.each([undefined, 5, "", "a\0b"])("wants the path of a folder, not %j", (directory) => {
    const make = (): unknown => createFileFence(directory as never, platform());
    expect(make).toThrow(expect.objectContaining({ family: "caller", option: "directory" }));
  });

  it("waits for a lock no longer than busyMs, also when that is text", async () => {
    await fence().arm(bearer(5), resource);
    await rename(path.join(folder(), "free"), path.join(folder(), "held.unknown.unknown.1.unknown"));
    const patient = createFileFence(directory(), platform(), { busyMs: "30ms" as never });
    await expect(patient.arm(bearer(6), resource)).rejects.toThrow(/is locked by process 1/);
  });

  it("makes nothing for a resource that is only looked at", async () => {
    expect(await fence().mark(resource)).toBeNull();
    expect(await readdir(directory())).toEqual([]);
  });
});
