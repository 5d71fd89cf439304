import { describe, expect, it } from "vitest";
import type { Call } from "../../../src/core/backend.js";
import { OutcomeUnknownError } from "../../../src/core/errors.js";
import { rig, silent } from "./rig.js";

describe("what a call tells its backend", () => {
  it("ends both ways when nobody waits any more, for who listens early or late", async () => {
    const { sim, a, hooks } = await rig();
    const heard: string[] = [];
    let given: Call | undefined;
    hooks.acquire = (_next, _request, call) => {
      given = call;
      call.over!.addEventListener("abort", () => heard.push("over"));
      const left = (): number => heard.push("left");
      call.over!.addEventListener("abort", left);
      call.over!.removeEventListener("abort", left);
      return silent();
    };
    const trying = a.tryAcquire("x").catch((error: unknown) => error);
    await sim.settle();
    expect(given!.over!.aborted).toBe(false);
    await sim.advance(5_000);
    const error = await sim.until(trying);
    expect(error).toBeInstanceOf(OutcomeUnknownError);
    expect(heard).toEqual(["over"]);
    expect(given!.over!.aborted).toBe(true);
    expect(given!.signal.reason).toBe(error);
  });
});
