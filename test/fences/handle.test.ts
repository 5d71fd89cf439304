/** What a handle sees to by itself, at a store that takes its time. */
import { expect, it } from "vitest";
import { OutcomeUnknownError } from "../../src/core/errors.js";
import type { FenceStore } from "../../src/fences/contract.js";
import { createFence } from "../../src/fences/fence.js";
import { memoryStore, type Cell, type ReadCell } from "../../src/fences/memory/index.js";
import { bearer } from "./bearers.js";
import { testRuntime } from "./runtime.js";

type Store = FenceStore<Cell<number>, ReadCell<number>>;

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

it("sends its operations one at a time, in the order of the calls", async () => {
  const inner = memoryStore<number>();
  let open = 0;
  const sent: number[] = [];
  const write: Store["write"] = async (request, work, call) => {
    expect(open++).toBe(0);
    sent.push(request.n);
    // The first takes longest: what is sent beside it would come before it.
    for (let turns = 4 - request.n; turns > 0; turns--) await turn();
    open--;
    return inner.write(request, work, call);
  };
  const handle = await createFence({ ...inner, write }, testRuntime().runtime).arm(bearer(1), "r");
  await Promise.all([1, 2, 3].map((value) => handle.write((cell) => cell.set(value))));
  expect(sent).toEqual([1, 2, 3]);
  expect(await handle.read((cell) => cell.get())).toBe(3);
});

it("begins nothing when the lease has ended while it armed again", async () => {
  const inner = memoryStore<number>();
  const { signal, abort } = stoppable();
  let isCut = true;
  const store: Store = {
    ...inner,
    arm: async (request, call) => {
      if (!isCut) abort();
      return inner.arm(request, call);
    },
    write: (request, work, call) => {
      if (!isCut) return inner.write(request, work, call);
      isCut = false;
      return Promise.reject(new OutcomeUnknownError("cut"));
    },
  };
  const fence = createFence(store, testRuntime().runtime);
  const handle = await fence.arm(bearer(1, { signal }), "r");
  await expect(handle.write((cell) => cell.set(1))).rejects.toBeInstanceOf(OutcomeUnknownError);
  await expect(handle.write((cell) => cell.set(2))).rejects.toThrow("ended");
  expect(await (await fence.arm(bearer(2), "r")).read((cell) => cell.get())).toBeUndefined();
});

it("passes on what asynchronous work throws as it is, and stays sure", async () => {
  const inner = memoryStore<number>();
  const store: Store = {
    ...inner,
    work: "async",
    write: async (request, work, call) => {
      const ran = await inner.write(request, (cell) => ({ working: work(cell) }), call);
      return ran.accepted ? { accepted: true, result: await ran.result.working } : ran;
    },
  };
  const handle = await createFence(store, testRuntime().runtime).arm(bearer(1), "r");
  const error = new Error("of the work");
  await expect(handle.write(() => Promise.reject(error))).rejects.toBe(error);
  await handle.write(() => undefined);
  expect(handle.arm).toBe(1);
});

function stoppable(): { readonly signal: AbortSignal; readonly abort: () => void } {
  const controller = new AbortController();
  return { signal: controller.signal, abort: () => controller.abort(new Error("ended")) };
}
