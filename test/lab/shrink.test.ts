import { describe, expect, test } from "vitest";
import { chaos } from "../../src/lab/chaos.js";
import { shrink, type Shrunk } from "../../src/lab/shrink.js";
import { catchVariant, VARIANTS } from "../../src/lab/variants/index.js";
import type { Variant } from "../../src/lab/variants/variant.js";

/** A few flaws that need a fault to show, and what is needed. */
const NEEDED: Readonly<Record<string, RegExp>> = {
  "monotonic-only": /^suspend /,
  "value-then-expiry": /^(kill|pause|suspend|freeze) /,
};

function variantOf(name: string): Variant {
  return VARIANTS.find((one) => one.name === name)!;
}

describe("a failing run", () => {
  test.each(Object.entries(NEEDED))("%s: shrinks to the fault that matters", async (name, fault) => {
    const { seed } = (await catchVariant(variantOf(name), 40))!;
    const small = (await shrink({ seed, variant: name }))!;
    expect(small.faults.length).toBeLessThanOrEqual(4);
    expect(small.faults.some((text) => fault.test(text))).toBe(true);
    expect(variantOf(name).breaks).toContain(small.violation.invariant);
  });

  test("plays again as it was shrunk", async () => {
    const variant = variantOf("value-then-expiry");
    const { seed } = (await catchVariant(variant, 40))!;
    const { settings, result } = (await shrink({ seed, variant: variant.name }))!;
    const again = await chaos({ ...variant.flawed, ...settings, seed });
    expect(again.traceHash).toBe(result.traceHash);
  });

  test("of an unfenced resource shrinks to how an update is lost", async () => {
    let small: Shrunk | undefined;
    for (let seed = 1; small === undefined && seed <= 20; seed++) {
      small = await shrink({ seed, fence: "none", store: "poll", run: { forMs: 60_000 } });
    }
    expect(small?.violation.invariant).toBe("I5");
    expect(small?.events).toBeLessThanOrEqual(6);
  });

  test("there is none where nothing breaks, and no variant of another name", async () => {
    expect(await shrink({ seed: 1, run: { forMs: 20_000 } })).toBeUndefined();
    await expect(shrink({ seed: 1, variant: "perfect" })).rejects.toThrow("no variant");
  });
});
