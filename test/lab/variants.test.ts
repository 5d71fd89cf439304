import { describe, expect, test } from "vitest";
import { catchVariant, playVariant, VARIANTS } from "../../src/lab/variants/index.js";

const MOST_SEEDS = 40;
const EARLY_SEED = 10;

const caughtAt = new Map<string, number>();

describe("a lock that is wrong on purpose, and its like without the flaw", () => {
  test.each(VARIANTS)("$name: is caught, and the control is not", async (variant) => {
    const caught = await catchVariant(variant, MOST_SEEDS);
    expect(caught, `not caught by ${MOST_SEEDS} seeds`).toBeDefined();
    caughtAt.set(variant.name, caught!.seed);
    for (let seed = 1; seed <= caught!.seed; seed++) {
      const { fence, violations } = await playVariant(variant, seed, "control");
      // A resource without a fence loses updates, whatever the lock does.
      const broken = violations.filter(({ invariant }) => fence === "armed" || invariant !== "I5");
      expect(broken, `control, seed ${seed}`).toEqual([]);
    }
  });

  test("all have names of their own, and most are caught early", () => {
    expect(new Set(VARIANTS.map(({ name }) => name)).size).toBe(VARIANTS.length);
    expect(caughtAt.size).toBe(VARIANTS.length);
    const early = [...caughtAt.values()].filter((seed) => seed <= EARLY_SEED);
    expect(early.length).toBeGreaterThanOrEqual(VARIANTS.length / 2);
  });

  test("each known-bad lock of the published list is there", () => {
    expect(VARIANTS.map(({ name }) => name).sort()).toEqual(
      [
        "release-any", "renew-any", "renew-recreates", "token-dies", "strict-greater",
        "no-mark-update", "check-then-write", "unarmed-fence", "arm-without-order",
        "equal-token-any-grant", "no-write-numbers", "write-number-or-equal", "token-re-read",
        "renewal-moves-token", "lexicographic-tokens", "no-validity-check", "deadline-from-reply",
        "wall-clock-only", "monotonic-only", "no-local-deadline", "lost-wake", "no-fallback-poll",
        "leak-on-cancel", "leak-on-throw", "no-compensating-release", "stale-resign",
        "callback-after-revoke", "reconnect-as-held", "dead-lease-grant", "retry-with-new-id",
        "renew-pile-up", "value-then-expiry", "no-expiry",
      ].sort(),
    );
  });
});
