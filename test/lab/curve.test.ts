import { beforeAll, describe, expect, test } from "vitest";
import { curve, type CurvePoint } from "../../src/lab/index.js";
import { curveHtml, curveText } from "../../src/lab/report/curve-plot.js";

const TTLS = [1_000, 5_000, 20_000];

describe("a curve", () => {
  let points: readonly CurvePoint[];
  const of = (renew: boolean): readonly CurvePoint[] =>
    points.filter((point) => point.renew === renew);

  beforeAll(async () => {
    points = await curve({ ttls: TTLS, crashes: 10, turns: 200 });
  });

  test("has a longer recovery for a longer TTL, and never beyond it by much", () => {
    for (const renew of [true, false]) {
      const means = of(renew).map(({ recovery }) => recovery.meanMs);
      expect(means).toEqual([...means].sort((a, b) => a - b));
      expect(means[2]! / means[0]!).toBeGreaterThan(5);
      for (const { ttlMs, recovery } of of(renew)) {
        // Waiters look again after a while: that is on top of the TTL.
        expect(recovery.maxMs).toBeLessThan(ttlMs * 1.1 + 3_000);
      }
    }
  });

  test("has the crash of a renewed lease wait for most of its TTL", () => {
    for (const { ttlMs, recovery } of of(true)) {
      expect(recovery.meanMs).toBeGreaterThan(ttlMs * 0.6);
    }
  });

  test("has fewer overlaps with renewal, and some are left", () => {
    const [shortRenewed] = of(true);
    const [shortAlone] = of(false);
    expect(shortAlone!.overlaps).toBeGreaterThan(4 * shortRenewed!.overlaps);
    expect(shortRenewed!.overlaps).toBeGreaterThan(0);
  });

  test("is the same for the same seed, and another for another", async () => {
    const again = await curve({ ttls: [1_000], crashes: 10, turns: 200 });
    expect(again).toEqual(points.slice(0, 2));
    const other = await curve({ ttls: [1_000], crashes: 10, turns: 200, seed: 99 });
    expect(other).not.toEqual(again);
  });

  test("is drawn as text and as a page, with the same figures", () => {
    const text = curveText(points);
    const page = curveHtml(points);
    for (const { ttlMs, overlaps, turns } of points) {
      expect(text).toContain(`${ttlMs / 1_000} s renewed`);
      expect(page).toContain(`${overlaps} of ${turns}`);
      expect(text).toContain(`${((overlaps / turns) * 100).toFixed(1)} %`);
    }
    expect(page).not.toMatch(/NaN|undefined|https?:(?!\/\/www\.w3\.org\/2000\/svg)/);
  });
});
