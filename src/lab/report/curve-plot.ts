/** A curve of TTLs as lines of text, and as a page. */
import { CURVE_WORK, type CurvePoint } from "../curve.js";
import { element, escape, label } from "./markup.js";
import { PICTURE_STYLE, STYLE } from "./style.js";

const BAR = 26;

/** What a curve means, in words. */
const READING: readonly string[] = [
  "A short TTL recovers soon, and lets the next holder in while a paused one still works; a long",
  "one the other way round. Renewal keeps long work in; it cannot renew during a pause. No TTL",
  "brings both bars to nothing: what is left of the second is what a fence is for.",
];

/** What was done, in words. */
function setting({ turns }: CurvePoint): string {
  const [shortest, longest] = CURVE_WORK.workMs.map((ms) => ms / 1_000);
  const [least, most] = CURVE_WORK.pauseMs.map((ms) => ms / 1_000);
  const share = `${CURVE_WORK.pauses * 100} % of them paused for ${least} to ${most} s`;
  return `${turns} turns of ${shortest} to ${longest} s of work each, ${share}; two contend`;
}

/** Draws a curve for a terminal. */
export function curveText(points: readonly CurvePoint[]): string {
  const most = Math.max(1, ...points.map(({ recovery }) => recovery.meanMs));
  const worst = Math.max(0.01, ...points.map(shareOf));
  const rows = points.map((point) => {
    const { ttlMs, renew, recovery } = point;
    const share = shareOf(point);
    return [
      (renew ? readable(ttlMs) : "").padStart(7),
      (renew ? "renewed" : "not renewed").padEnd(12),
      bar(Math.sqrt(recovery.meanMs / most), "#").padEnd(BAR),
      readable(recovery.meanMs).padStart(7),
      "  ",
      bar(share / worst, "!").padEnd(BAR),
      percent(share).padStart(6),
    ].join(" ");
  });
  const head = [
    "    TTL",
    "".padEnd(12),
    "recovery after a crash".padEnd(BAR),
    "   mean",
    "  ",
    "turns that met the next".padEnd(BAR),
    " share",
  ].join(" ");
  const [first] = points;
  return [head, ...rows, "", ...(first === undefined ? [] : [setting(first)]), ...READING, ""]
    .map((line) => line.trimEnd())
    .join("\n");
}

/** Draws a curve as a page without anything from elsewhere. */
export function curveHtml(points: readonly CurvePoint[]): string {
  const style = `${STYLE}${PICTURE_STYLE}
svg .renewed { stroke: var(--store); fill: var(--store); }
svg .unrenewed { stroke: var(--amber-ink); fill: var(--amber-ink); }
svg .curve { fill: none; stroke-width: 2.5; }
svg .unrenewed.curve { stroke-dasharray: 7 4; }`;
  const rows = points.map((point) => {
    const { ttlMs, renew, recovery, overlaps, turns } = point;
    const cells = [
      readable(ttlMs),
      renew ? "yes" : "no",
      readable(recovery.meanMs),
      readable(recovery.maxMs),
      `${overlaps} of ${turns} (${percent(shareOf(point))})`,
    ];
    return element("tr", {}, ...cells.map((cell) => element("td", {}, escape(cell))));
  });
  const titles = ["TTL", "renewed", "recovery, mean", "recovery, longest", "met the next"];
  const [first] = points;
  const body = [
    element("h1", {}, "What a TTL costs, and what it buys"),
    element("p", {}, escape(READING.join(" "))),
    element("div", { class: "scroll" }, curveSvg(points)),
    first === undefined ? "" : element("p", {}, escape(setting(first))),
    element(
      "table",
      {},
      element("tr", {}, ...titles.map((title) => element("th", { scope: "col" }, title))),
      ...rows,
    ),
  ];
  return (
    `<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8">` +
    `<meta name="viewport" content="width=device-width, initial-scale=1">` +
    `<link rel="icon" href="data:,"><title>TTL curve</title><style>${style}</style></head>\n` +
    `<body>\n${body.join("\n")}\n</body>\n</html>\n`
  );
}

const PLOT = { width: 520, height: 230, top: 40, left: 70 } as const;

/** Two plots side by side over the same TTLs, each on a logarithmic axis of time. */
function curveSvg(points: readonly CurvePoint[]): string {
  const ttls = [...new Set(points.map(({ ttlMs }) => ttlMs))].sort((a, b) => a - b);
  const most = Math.max(1, ...points.map(({ recovery }) => recovery.meanMs));
  const worst = Math.max(0.01, ...points.map(shareOf));
  const left = plot(points, ttls, PLOT.left, "recovery after a crash, mean", {
    most,
    valueOf: ({ recovery }) => recovery.meanMs,
    text: readable,
    endsApart: true,
  });
  const right = plot(points, ttls, PLOT.left + PLOT.width + 110, "turns that met the next", {
    most: worst,
    valueOf: shareOf,
    text: percent,
    endsApart: false,
  });
  const about = "Two plots over the TTL; the table below has the same figures";
  const viewBox = `0 0 1240 ${PLOT.top + PLOT.height + 60}`;
  return element(
    "svg",
    { xmlns: "http://www.w3.org/2000/svg", viewBox, role: "img", "aria-label": about },
    left,
    right,
  );
}

interface Axis {
  readonly most: number;
  readonly valueOf: (point: CurvePoint) => number;
  readonly text: (value: number) => string;
  /** Whether the lines are apart at their ends, or at their beginnings. */
  readonly endsApart: boolean;
}

function plot(
  points: readonly CurvePoint[],
  ttls: readonly number[],
  fromX: number,
  title: string,
  { most, valueOf, text, endsApart }: Axis,
): string {
  const low = Math.log(ttls[0] ?? 1);
  const span = Math.log(ttls.at(-1) ?? 2) - low || 1;
  const x = (ttlMs: number): number =>
    Math.round(fromX + ((Math.log(ttlMs) - low) / span) * PLOT.width);
  const y = (value: number): number =>
    Math.round(PLOT.top + PLOT.height - (value / most) * PLOT.height);
  const lines = [true, false].map((renew) => {
    const own = points.filter((point) => point.renew === renew);
    const at = own.map((point) => ({ x: x(point.ttlMs), y: y(valueOf(point)), point }));
    const name = renew ? "renewed" : "unrenewed";
    const d = at.map((place, nth) => `${nth === 0 ? "M" : "L"}${place.x},${place.y}`).join("");
    // Told apart by their signs, too.
    const signs = at.map((place) =>
      renew
        ? element("circle", { cx: place.x, cy: place.y, r: 4, class: name })
        : element("path", { d: `M${place.x - 4},${place.y - 4}h8v8h-8z`, class: name }),
    );
    // Where the two are apart.
    const end = endsApart ? at.at(-1) : at[0];
    const told = renew ? "renewed" : "not renewed";
    const side =
      end === undefined ? "" : label(end.x + (endsApart ? -84 : 12), end.y - 8, name, told);
    return element("path", { d, class: `curve ${name}` }) + signs.join("") + side;
  });
  const floor = PLOT.top + PLOT.height;
  const ticks = ttls.map((ttlMs) => label(x(ttlMs) - 12, floor + 18, "small", readable(ttlMs)));
  const levels = [0, 0.5, 1].map((part) => {
    const line = { x1: fromX, x2: fromX + PLOT.width, y1: y(part * most), y2: y(part * most) };
    const name = label(fromX - 58, y(part * most) + 4, "small", text(part * most));
    return element("line", { ...line, class: "grid" }) + name;
  });
  return [label(fromX, 18, "lane", title), ...levels, ...ticks, ...lines].join("");
}

function shareOf({ overlaps, turns }: CurvePoint): number {
  return turns === 0 ? 0 : overlaps / turns;
}

function bar(part: number, sign: string): string {
  const length = Math.round(part * BAR);
  return part > 0 ? sign.repeat(Math.max(1, length)) : "";
}

function readable(ms: number): string {
  return ms < 1_000 ? `${Math.round(ms)} ms` : `${Number((ms / 1_000).toFixed(1))} s`;
}

function percent(share: number): string {
  return `${(share * 100).toFixed(1)} %`;
}
