import { expect, it } from "vitest";
import { Mishaps, reasonOf } from "../../../src/core/mishaps.js";

it("tells why, whatever was thrown", () => {
  const named = Object.assign(new Error("m"), { name: Symbol("n") as never });
  const hidden = Object.defineProperty(new Error(), "message", {
    get: () => {
      throw new Error("no");
    },
  });
  expect(reasonOf(new TypeError("m"))).toBe("TypeError: m");
  expect(reasonOf("")).toBe("failed");
  expect(reasonOf(null)).toBe("null");
  expect(reasonOf(`\0${"x".repeat(3_000)}`)).toBe("x".repeat(1_999));
  for (const thrown of [named, hidden, Object.create(null), { toString: 1, valueOf: 1 }]) {
    expect(reasonOf(thrown)).toBe("failed with something that has no text");
  }
});

it("keeps the first thing that `onError` throws, also where that is undefined", () => {
  const failures: any[] = [undefined, new Error("later")];
  const mishaps = new Mishaps((error) => {
    if (error !== 1) throw failures.shift();
  });
  mishaps.tell(1);
  expect(mishaps.over.aborted).toBe(false);
  mishaps.throwIfOver();
  mishaps.tell(2);
  mishaps.tell(3);
  expect(mishaps.over.aborted).toBe(true);
  let thrown: unknown = "nothing";
  try {
    mishaps.throwIfOver();
  } catch (error) {
    thrown = error;
  }
  expect(thrown).toBeUndefined();
});
