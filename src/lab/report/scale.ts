/** Where a moment is drawn. */

/** A moment's place from left to right. */
export type Scale = (ms: number) => number;

/** With more moments than this, time runs evenly: there is no quiet to shorten. */
const MOST_MOMENTS = 600;

/**
 * A scale on which quiet time is drawn shorter: the width between two neighbouring moments grows
 * with the cube root of the time between, so that ten seconds of pause and the five milliseconds
 * in which an update is lost are both seen. Order is kept, and the marks of the axis say the time.
 */
export function quietScale(
  moments: readonly number[],
  startMs: number,
  endMs: number,
  fromX: number,
  toX: number,
): Scale {
  const sorted = [...new Set([startMs, ...moments, endMs])].filter(
    (ms) => ms >= startMs && ms <= endMs,
  );
  sorted.sort((a, b) => a - b);
  if (sorted.length > MOST_MOMENTS) {
    return (ms) => {
      const part = (Math.min(Math.max(ms, startMs), endMs) - startMs) / (endMs - startMs);
      return fromX + part * (toX - fromX);
    };
  }
  const at = [0];
  for (let nth = 1; nth < sorted.length; nth++) {
    at.push(at[nth - 1]! + Math.cbrt(sorted[nth]! - sorted[nth - 1]!));
  }
  const total = at.at(-1)! || 1;
  return (ms) => {
    let low = 0;
    let high = sorted.length - 1;
    while (high - low > 1) {
      const middle = (low + high) >> 1;
      if (sorted[middle]! <= ms) low = middle;
      else high = middle;
    }
    const [from, to] = [sorted[low]!, sorted[high]!];
    const part = to === from ? 0 : Math.min(1, Math.max(0, (ms - from) / (to - from)));
    const weight = at[low]! + (at[high]! - at[low]!) * part;
    return Math.round((fromX + (weight / total) * (toX - fromX)) * 10) / 10;
  };
}

/** Moments that the axis names, no closer than `apart`: rounder ones first. */
export function ticks(
  startMs: number,
  endMs: number,
  scale: Scale,
  apart: number,
): readonly number[] {
  const units = [100_000, 10_000, 5_000, 1_000, 500, 100, 50, 10];
  const found: number[] = [];
  for (const unit of units) {
    // A unit that is too fine for the whole picture would be tried in vain thousands of times.
    if ((endMs - startMs) / unit > 500) break;
    for (let ms = Math.ceil(startMs / unit) * unit; ms <= endMs; ms += unit) {
      if (found.every((one) => Math.abs(scale(one) - scale(ms)) >= apart)) found.push(ms);
    }
  }
  return found.length === 0 ? [startMs] : found.sort((a, b) => a - b);
}
