import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { beforeEach, expect, it, onTestFinished } from "vitest";
import { firstData } from "../../servers/first-data.js";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), "tenure-first-data-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
});

const kept = (): string => path.join(folder, "kept");
const dataOf = (n: number): string => path.join(folder, `data ${n}`);

let made = 0;
const fill = (n: number): Promise<void> =>
  firstData(
    dataOf(n),
    process.execPath,
    ["a"],
    async () => {
      made += 1;
      await mkdir(path.join(dataOf(n), "base"), { recursive: true });
      await writeFile(path.join(dataOf(n), "base", "1"), "one");
    },
    kept(),
  );

it("is made once, and then copied, also after several began at the same time", async () => {
  made = 0;
  const numbers = Array.from({ length: 8 }, (_, n) => n);
  await Promise.all(numbers.map(fill));
  const madeAtFirst = made;
  await fill(8);
  expect(made).toBe(madeAtFirst);
  for (const n of [...numbers, 8]) {
    expect(readdirSync(dataOf(n), { recursive: true }).toSorted()).toEqual(["base", "base/1"]);
    expect(readFileSync(path.join(dataOf(n), "base", "1"), "utf8")).toBe("one");
  }
  expect(readdirSync(kept())).toHaveLength(1);
});

it("does not take what was left half-way by a process that had the same id", async () => {
  await fill(0);
  const [name] = readdirSync(kept());
  rmSync(path.join(kept(), name!), { recursive: true });
  const left = path.join(kept(), `${name}.${process.pid}`);
  await mkdir(left);
  await writeFile(path.join(left, "half"), "");
  await fill(1);
  await fill(2);
  expect(existsSync(path.join(dataOf(2), "base", "1"))).toBe(true);
  expect(readdirSync(dataOf(2))).toEqual(["base"]);
});
