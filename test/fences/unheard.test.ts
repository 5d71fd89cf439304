/** A write that nobody awaits: its failure is reported as every promise's is, and not lost. */
import { once } from "node:events";
import { expect, it, onTestFinished } from "vitest";
import { memoryFence } from "../../src/fences/memory/open.js";
import { bearer } from "./bearers.js";

it("a failed write that nobody awaits is an unhandled rejection", async () => {
  const others = process.listeners("unhandledRejection");
  process.removeAllListeners("unhandledRejection");
  onTestFinished(() => {
    for (const listener of others) process.on("unhandledRejection", listener);
  });
  const handle = await memoryFence<number>().arm(bearer(1), "r");
  const failure = new Error("the work failed");
  const reported = once(process, "unhandledRejection");
  void handle.write(() => {
    throw failure;
  });
  const next = handle.write((cell) => cell.set(1));
  expect((await reported)[0]).toBe(failure);
  // It does not hold up the next.
  await next;
  expect(await handle.read((cell) => cell.get())).toBe(1);
});
