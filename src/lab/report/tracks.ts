/** The tracks of a picture: three truths, one below the other, and what was done to them. */
import { box, element, escape, label } from "./markup.js";
import { seconds } from "./names.js";
import type { Scale } from "./scale.js";
import type { Operation, Story } from "./story.js";
import type { Band } from "./bands.js";

/** Where everything is drawn. */
export interface Layout {
  readonly story: Story;
  readonly x: Scale;
  /** Prefix of the ids of this picture's patterns. */
  readonly id: string;
  /** Vertical middle of the lane of a process. */
  readonly lanes: ReadonlyMap<string, number>;
  readonly rightX: number;
}

/** Half the height of a solid bar. */
const HALF = 9;

/** What the store says: solid bars. */
export function storeTrack({ story, x }: Layout, lane: string, y: number): string {
  const bars = story.grants.filter((grant) => grant.lane === lane);
  let toldX = -Infinity;
  const drawn = bars.map(({ fromMs, toMs, client, token, key, why }) => {
    const name = `${client} t=${story.names(token)}`;
    const end = why === undefined ? "still held" : `${why} at ${seconds(toMs)}`;
    const title = `${key}: ${name}, granted at ${seconds(fromMs)}, ${end}`;
    const [left, right] = [x(fromMs), x(toMs)];
    const isTold = why !== undefined && why !== "released" && right - toldX > 60;
    if (isTold) toldX = right;
    return [
      box([left, right], [y - HALF, 2 * HALF], "grant", title),
      fits(name, right - left) ? label(left + 5, y + 4, "on-grant", name) : "",
      isTold ? label(right - 4, y - HALF - 2, "small", why) : "",
    ].join("");
  });
  return group("track-store", `what ${lane} says`, drawn);
}

/** What a client believes: hatched bars, closer hatched and edged where nothing bears it out. */
export function beliefTrack({ story, x, id }: Layout, client: string, y: number): string {
  const own = story.beliefs.filter((belief) => belief.client === client);
  const drawn = own.map(({ fromMs, toMs, staleFromMs, token, isDoubtful }) => {
    const name = story.names(token);
    const honestTo = staleFromMs ?? toMs;
    const honest = `${client} believes to hold token ${name}${isDoubtful ? ", in doubt" : ""}`;
    const parts = [
      box([x(fromMs), x(honestTo)], [y - 7, 14], "belief", honest, `url(#${id}-belief)`),
      fits(`held ${name}`, x(honestTo) - x(fromMs))
        ? label(x(fromMs) + 5, y + 4, "on-hatch", `held ${name}`)
        : "",
    ];
    if (staleFromMs !== undefined) {
      const title = `${client} still believes so; the store let go at ${seconds(staleFromMs)}`;
      const span = [x(staleFromMs), x(toMs)] as const;
      parts.push(box(span, [y - 7, 14], "belief stale", title, `url(#${id}-stale)`));
      if (fits("stale belief !", span[1] - span[0])) {
        parts.push(label(span[0] + 5, y + 4, "on-hatch", "stale belief !"));
      }
    }
    return parts.join("");
  });
  return group("track-belief", `what ${client} believes`, drawn);
}

/** What was done to a process, over its lane. */
export function faultTrack({ story, x, id }: Layout, name: string, y: number): string {
  const own = story.bands.filter(({ target }) => target === name);
  const drawn = [...own, ...cutsOf(story, name)].map((band) => fault(band, x, id, y));
  return group("faults", `faults of ${name}`, drawn);
}

/**
 * Cuts of a client stand in its lane, others in that of the sender, and each once: of a cut in both
 * directions the one that begins here. Those of one time are one band.
 */
function cutsOf({ bands, clients }: Story, name: string): readonly Band[] {
  const found = new Map<string, Band>();
  for (const band of bands) {
    const [from = "", to] = band.target.split("→");
    if (to === undefined || (from !== name && to !== name)) continue;
    const isOwn = clients.includes(name) || (from === name && !clients.includes(to));
    const isBack = from !== name && bands.some(({ target }) => target === `${to}→${from}`);
    if (!isOwn || isBack) continue;
    const id = `${band.fromMs} ${band.toMs}`;
    const before = found.get(id);
    const target = before === undefined ? band.target : `${before.target} ${band.target}`;
    found.set(id, { ...band, target });
  }
  return [...found.values()];
}

function fault(
  { what, target, fromMs, toMs, isInstant }: Band,
  x: Scale,
  id: string,
  y: number,
): string {
  const title = `${what} ${target} at ${seconds(fromMs)}`;
  const [left, right] = [x(fromMs), x(toMs)];
  if (isInstant) {
    const tick = element("line", { x1: left, x2: left, y1: y - 13, y2: y + 13, class: "tick" });
    return tick + label(left + 4, y - 12, "small", what);
  }
  if (what === "kill") {
    const cross = `M${left - 6},${y - 6}l12,12m0,-12l-12,12`;
    const gone = box([left, right], [y - 10, 20], "gone", title);
    return (
      gone + element("path", { d: cross, class: "cross" }) + label(left + 9, y + 4, "small", "kill")
    );
  }
  const isCut = target.includes("→");
  const name = isCut ? `cut ${target}` : what;
  const drawn = box(
    [left, right],
    [y - 10, 20],
    `band band-${isCut ? "cut" : "stop"}`,
    title,
    `url(#${id}-${isCut ? "cut" : "stop"})`,
  );
  const told = fits(name, right - left) ? label(left + 5, y + 4, "on-hatch", name) : "";
  return drawn + told;
}

/** Times in which two clients believed to hold: normal, and not to be avoided. */
export function overlapBands({ story, x }: Layout, fromY: number, toY: number): string {
  const drawn = story.overlaps.map(({ fromMs, toMs }) => {
    const title = `two clients believe to hold, for ${seconds(toMs - fromMs)}`;
    const [left, right] = [x(fromMs), x(toMs)];
    const text = "≈ beliefs overlap";
    return (
      box([left, right], [fromY, toY - fromY], "overlap", title) +
      (fits(text, right - left) ? label(left + 5, toY - 4, "small overlap-text", text) : "")
    );
  });
  return group("overlaps", "overlapping beliefs", drawn);
}

/** What the resource did: one sign for each operation, filled where it was accepted. */
export function operationTrack({ story, x, rightX }: Layout, resource: string, y: number): string {
  const own = story.operations.filter((one) => one.resource === resource);
  const taken: (readonly [number, number, number])[] = [];
  const drawn = own.map((one) => {
    const at = x(one.atMs);
    const text = operationText(story, one);
    const width = text.length * 6.3;
    const isLate = at + width > rightX;
    const left = isLate ? at - width + 4 : at - 4;
    // Above the signs, and a line higher where two names would lie on each other.
    const rows = [-10, -21, 4];
    const isFree = (row: number): boolean =>
      taken.every(([from, to, its]) => its !== row || to < left || from > left + width);
    const row = rows.find(isFree);
    if (row !== undefined) taken.push([left, left + width, row]);
    const name =
      row === undefined
        ? ""
        : label(left, y + row, one.accepted ? "small" : "small refused-text", text);
    return sign(story, one, at, y) + name;
  });
  return group("track-operations", `what ${resource} accepted and refused`, drawn);
}

function operationText({ names, refusals }: Story, one: Operation): string {
  const { kind, client, accepted, token, value } = one;
  if (!accepted) return `✗ ${client} ${kind}: ${refusals.get(one) ?? "stale"}`;
  if (kind === "arm") return `${client} arms ${names(token)}`;
  return kind === "read" ? `${client} reads v${value ?? 0}` : `${client} writes v${value ?? 0}`;
}

function sign(story: Story, one: Operation, at: number, y: number): string {
  const { kind, client, token, accepted } = one;
  const isClash = story.clashes.some(({ wiped, by }) => wiped === one || by === one);
  const state = !accepted ? "refused" : isClash ? "clash" : "accepted";
  const verdict = accepted ? "accepted" : `refused, ${story.refusals.get(one) ?? "stale"}`;
  const about = `${client} ${kind} with token ${story.names(token)}: ${verdict}`;
  const shapes = {
    arm: `M${at},${y - 6}l6,11h-12z`,
    read: `M${at - 4},${y - 4}h8v8h-8z`,
    write: `M${at},${y - 6}a6,6 0 1 0 .01,0z`,
  };
  const d = isClash ? `M${at},${y - 8}l8,8l-8,8l-8,-8z` : shapes[kind];
  const attributes = { d, class: `op op-${kind} ${state}`, "data-op": kind, "data-state": state };
  return element("path", attributes, element("title", {}, escape(about)));
}

/** The mark, or the value, as a line that steps. */
export function stepTrack(
  { x, rightX }: Layout,
  className: string,
  about: string,
  steps: readonly { readonly atMs: number; readonly text: string; readonly level: number }[],
  [y, height]: readonly [number, number],
): string {
  const most = Math.max(1, ...steps.map(({ level }) => level));
  const at = (level: number): number => Math.round(y + height - (level / most) * height);
  let path = "";
  let lastTextX = -Infinity;
  const texts = steps.map(({ atMs, text, level }) => {
    path += path === "" ? `M${x(atMs)},${at(level)}` : `H${x(atMs)}V${at(level)}`;
    if (x(atMs) - lastTextX < 8 + text.length * 6.3) return "";
    lastTextX = x(atMs);
    return label(Math.min(x(atMs) + 3, rightX - 40), at(level) - 3, "small", text);
  });
  const line = path === "" ? "" : element("path", { d: `${path}H${rightX}`, class: "step" });
  return group(className, about, [line, ...texts]);
}

/** A part of a picture that says what it is. */
export function group(className: string, about: string, inner: readonly string[]): string {
  return element("g", { class: className, role: "group", "aria-label": about }, ...inner);
}

function fits(text: string, width: number): boolean {
  return text.length * 6.6 + 8 < width;
}
