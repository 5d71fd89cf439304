import { join } from "node:path";
import { expect, test } from "vitest";
import type { QueueWaiting } from "../../../src/core/backend.js";
import { beside, call, opened, request, taken, temporaryFolder } from "./folder.js";

test("a waiter that was passed over is not taken for the one that got its number", async () => {
  const path = join(temporaryFolder(), "locks.db");
  const [a, b] = [await opened(path), await opened(path)];
  const [ofA, ofB] = [a.waiting as QueueWaiting, b.waiting as QueueWaiting];
  await taken(a, "x");
  const frozen = await ofB.enqueue(request("x"), call());
  // What a hand-over does to the waiters of a process that has been silent for long.
  await beside(path, (db) => db.exec("DELETE FROM tenure_waiter"));
  const next = await ofA.enqueue(request("x"), call());
  const ids = await beside(path, (db) => db.prepare("SELECT id FROM tenure_waiter").all());
  expect(ids).toEqual([{ id: 1n }]);
  expect(await ofA.touch([next], call())).toEqual(["waiting"]);
  expect(await ofB.touch([frozen], call())).toEqual(["gone"]);
});
