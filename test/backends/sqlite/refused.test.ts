/** Backends that are refused: nobody has anything left to close them by. */
import { readdirSync, readlinkSync, writeFileSync } from "node:fs";
import { expect, it } from "vitest";
import { memory } from "../../../src/backends/memory/open.js";
import { sqlite } from "../../../src/backends/sqlite/open.js";
import { connect } from "../../../src/connect.js";
import { temporaryFolder } from "./folder.js";

/** How many handles this process has on a file. */
function handlesOn(file: string): number {
  const targets = readdirSync("/proc/self/fd").map((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`);
    } catch {
      return "the handle of this very list";
    }
  });
  return targets.filter((target) => target === file).length;
}

const REFUSED: readonly [string, object][] = [
  ["a guarantee", { require: "consensus" }],
  ["an option that is not known", { tll: "3s" }],
  ["an option that is wrong", { timeout: -1 }],
  ["a purpose that is none", { purpose: "fun" }],
];

it.runIf(process.platform === "linux").each(REFUSED)(
  "closes the file of a backend that is refused for %s",
  async (_, options) => {
    const file = `${temporaryFolder()}/locks.db`;
    await expect(connect(await sqlite(file), options)).rejects.toMatchObject({
      family: expect.stringMatching(/caller|refused/),
    });
    expect(handlesOn(file)).toBe(0);
  },
);

it.runIf(process.platform === "linux")("closes a file that is no database", async () => {
  const file = `${temporaryFolder()}/locks.db`;
  writeFileSync(file, "this is no database, although it is long enough to be read as one\n".repeat(99));
  const connecting = sqlite(file).then((backend) => connect(backend));
  await expect(connecting).rejects.toMatchObject({ retryable: false });
  expect(handlesOn(file)).toBe(0);
});

it("closes nothing that is no backend", async () => {
  let closed = 0;
  const database = { open: true, close: () => void closed++ };
  await expect(connect(database as never)).rejects.toBeInstanceOf(TypeError);
  expect(closed).toBe(0);
});

/** A backend that counts how often it is closed. */
function counting(close: () => Promise<void> = async () => undefined) {
  const backend = memory();
  let closed = 0;
  const own = backend.close.bind(backend);
  backend.close = async () => {
    closed += 1;
    await own();
    await close();
  };
  return { backend, closed: () => closed };
}

it.each(REFUSED)("says what %s was refused for, though closing fails", async (_, options) => {
  const { backend, closed } = counting(() => Promise.reject(new Error("cannot close")));
  await expect(connect(backend, options)).rejects.toMatchObject({
    family: expect.stringMatching(/caller|refused/),
  });
  expect(closed()).toBe(1);
});

it("leaves a backend that a tenure serves, or is about to, to that", async () => {
  const { backend, closed } = counting();
  const wrong = { tll: "3s" } as object;
  const connecting = connect(backend);
  await expect(connect(backend, wrong)).rejects.toBeInstanceOf(TypeError);
  const tenure = await connecting;
  await expect(connect(backend, { require: "consensus" })).rejects.toMatchObject({
    family: "refused",
  });
  expect(closed()).toBe(0);
  expect(await tenure.tryAcquire("a", { ttl: "3s" })).not.toBeNull();
  await tenure.close();
  expect(closed()).toBe(1);
});
