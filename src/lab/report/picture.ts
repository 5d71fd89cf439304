/** One run as an SVG picture. */
import { element, escape, label } from "./markup.js";
import { seconds } from "./names.js";
import { quietScale, ticks, type Scale } from "./scale.js";
import type { Story } from "./story.js";
import * as tracks from "./tracks.js";

/** Width of a picture in its own units. */
const WIDTH = 1_240;
const LEFT = 92;
const RIGHT = WIDTH - 12;
const TOP = 26;
/** More clients, stores or resources than these are not drawn, and named below the picture. */
export const MOST_LANES = 8;
const MOST_ARROWS = 260;

/** A picture, and where its moments are. */
export interface Picture {
  readonly svg: string;
  readonly x: Scale;
}

/** Draws a run. The times are common to pictures that are compared; `id` is unique in its page. */
export function pictureOf(
  story: Story,
  id: string,
  [startMs, endMs]: readonly [number, number],
  moments: readonly number[],
): Picture {
  const x = quietScale(moments, startMs, endMs, LEFT, RIGHT);
  const stores = story.lanes.slice(0, MOST_LANES);
  const servers = story.servers.slice(0, MOST_LANES);
  const clients = story.clients.slice(0, MOST_LANES);
  const resources = story.resources.slice(0, MOST_LANES);
  const lanes = new Map<string, number>();
  let y = TOP + 22;
  for (const store of stores) y = place(lanes, store, y, 38);
  for (const server of servers) y = place(lanes, server, y - 6, 34);
  const clientsFrom = y - 12;
  for (const client of clients) y = place(lanes, client, y, 50);
  const clientsTo = y - 8;
  const resourceY = y + 30;
  lanes.set("resource", resourceY);
  const layout: tracks.Layout = { story, x, id, lanes, rightX: RIGHT };
  const parts: string[] = [];
  y = resourceY;
  for (const resource of resources) {
    parts.push(resourcePart(layout, resource, y));
    y += 132;
  }
  const height = Math.max(y - 20, clientsTo + 20);
  const name = `${story.scenario}, fence ${story.fence ?? "as recorded"}`;
  const svg = element(
    "svg",
    {
      xmlns: "http://www.w3.org/2000/svg",
      viewBox: `0 0 ${WIDTH} ${height}`,
      role: "img",
      "aria-label": `Timeline of ${name}; the table below says the same in words`,
    },
    patterns(id),
    axis(startMs, endMs, x, height),
    tracks.overlapBands(layout, clientsFrom, clientsTo),
    ...stores.map((store) => tracks.storeTrack(layout, store, lanes.get(store)!)),
    ...stores.map((store) => tracks.faultTrack(layout, store, lanes.get(store)!)),
    ...servers.map((server) => serverPart(layout, server, lanes.get(server)!)),
    ...clients.map((client) => clientPart(layout, client, lanes.get(client)!)),
    ...parts,
    arrows(layout),
    ...[...lanes].map(([lane, at]) => label(6, at + 4, "lane", short(lane))),
    element("line", { class: "cursor", x1: LEFT, x2: LEFT, y1: TOP - 8, y2: height - 4 }),
  );
  return { svg, x };
}

function place(lanes: Map<string, number>, name: string, y: number, height: number): number {
  lanes.set(name, y);
  return y + height;
}

function serverPart(layout: tracks.Layout, server: string, y: number): string {
  const line = element("line", { x1: LEFT, x2: RIGHT, y1: y, y2: y, class: "life" });
  return line + tracks.faultTrack(layout, server, y);
}

function clientPart(layout: tracks.Layout, client: string, y: number): string {
  const line = element("line", { x1: LEFT, x2: RIGHT, y1: y, y2: y, class: "life" });
  return (
    line +
    label(6, y + 24, "lane-more", "belief") +
    tracks.beliefTrack(layout, client, y + 20) +
    tracks.faultTrack(layout, client, y)
  );
}

/** Operations, the open window, the mark and the value of one resource. */
function resourcePart(layout: tracks.Layout, resource: string, y: number): string {
  const { story, x } = layout;
  const own = story.operations.filter((one) => one.resource === resource && one.accepted);
  const tokens = [...new Set(own.map(({ token }) => BigInt(token)))].sort((a, b) =>
    a < b ? -1 : 1,
  );
  const level = (token: string): number => tokens.indexOf(BigInt(token)) + 1;
  const marks: { atMs: number; text: string; level: number }[] = [];
  const values = [{ atMs: story.fromMs, text: story.fromMs === 0 ? "v0" : "", level: 0 }];
  for (const { kind, atMs, token, value = 0 } of own) {
    const raises = kind === "arm" || (kind === "write" && story.fence === "naive");
    if (raises && level(token) > (marks.at(-1)?.level ?? 0)) {
      marks.push({ atMs, text: story.names(token), level: level(token) });
    }
    if (kind === "write") values.push({ atMs, text: `v${value}`, level: values.length });
  }
  const windows = story.windows.filter((one) => one.resource === resource);
  const clashes = story.clashes.filter((one) => one.resource === resource);
  const life = element("line", { x1: LEFT, x2: RIGHT, y1: y, y2: y, class: "life" });
  return [
    ...windows.map((one) => windowBox(layout, one, y)),
    life,
    tracks.faultTrack(layout, resource, y),
    tracks.operationTrack(layout, resource, y),
    label(6, y + 16, "lane-more", short(resource)),
    label(6, y + 50, "lane-more", marks.length > 0 ? "mark" : "no mark"),
    tracks.stepTrack(layout, "track-mark", `the mark of ${resource}`, marks, [y + 30, 24]),
    label(6, y + 92, "lane-more", "value"),
    ...clashes.map(({ fromMs, toMs, wiped }) => {
      const span = [x(fromMs), Math.max(x(toMs), x(fromMs) + 3)] as const;
      const lost = `✗ v${wiped?.value ?? "?"} lost`;
      return (
        element("rect", {
          x: span[0],
          y: y + 66,
          width: span[1] - span[0],
          height: 32,
          class: "effects",
        }) + label(Math.min(span[0] + 3, RIGHT - 60), y + 108, "small refused-text", lost)
      );
    }),
    tracks.stepTrack(layout, "track-value", `the value of ${resource}`, values, [y + 72, 24]),
  ].join("");
}

function windowBox(
  { x, story }: tracks.Layout,
  window: Story["windows"][number],
  y: number,
): string {
  const { client, token, fromMs, toMs, closedBy } = window;
  const isOpen = closedBy !== "arm";
  const [left, right] = [x(fromMs), x(toMs)];
  const by = { arm: "the arming", write: "the first write", nothing: "nothing" }[closedBy];
  const title = `${client} (token ${story.names(token)}): ${seconds(toMs - fromMs)} until ${by}`;
  const rect = { x: left, y: y - 33, width: Math.max(1, right - left), height: 50 };
  const text = isOpen ? "open window" : "";
  return (
    element(
      "rect",
      { ...rect, class: isOpen ? "window open" : "window" },
      element("title", {}, escape(title)),
    ) + (right - left > 80 ? label(left + 4, y + 13, "small window-text", text) : "")
  );
}

/** Messages, from their sending to their arrival: a late one is seen crossing what came between. */
function arrows({ story, x, lanes, id }: tracks.Layout): string {
  const drawn: string[] = [];
  const grantsAt = story.grants.map(({ fromMs }) => fromMs);
  for (const { from, to, what, sentMs, atMs, fate } of story.messages) {
    const [y1, y2] = [lanes.get(from), lanes.get(to)];
    if (y1 === undefined || y2 === undefined || drawn.length >= MOST_ARROWS) continue;
    const isRoutine = /^(renew|touch|keep alive|inspect|acquire|enqueue|replicate)/.test(what);
    const isNearGrant = grantsAt.some(
      (ms) => Math.abs(ms - atMs) < 20 || Math.abs(ms - sentMs) < 20,
    );
    const isLate = atMs - sentMs > 1_000 || fate === "lost";
    if (isRoutine && !isLate && !(what.startsWith("acquire") && isNearGrant)) continue;
    const [left, right] = [x(sentMs), x(atMs)];
    const stop = fate === "lost" ? 0.5 : 1;
    const end = { x2: left + (right - left) * stop, y2: y1 + (y2 - y1) * stop };
    const title = `${from} → ${to}: ${what}, sent ${seconds(sentMs)}, ${fate} ${seconds(atMs)}`;
    const kind = `arrow ${fate}${isLate ? " late" : ""}${what.endsWith("reply") ? " reply" : ""}`;
    const ends = fate === "lost" ? {} : { "marker-end": `url(#${id}-head)` };
    drawn.push(
      element(
        "line",
        { x1: left, y1, ...end, class: kind, ...ends },
        element("title", {}, escape(title)),
      ),
      ...(fate === "lost" ? [label(end.x2 - 4, end.y2 + 4, "small refused-text", "✗")] : []),
      ...(isLate && fate !== "lost"
        ? [label((left + end.x2) / 2 + 4, (y1 + end.y2) / 2, "small late-text", what)]
        : []),
    );
  }
  return tracks.group("messages", "messages", drawn);
}

function axis(startMs: number, endMs: number, x: Scale, height: number): string {
  const marks = ticks(startMs, endMs, x, 58).filter((ms) => x(ms) < RIGHT - 30);
  return tracks.group(
    "axis",
    "time",
    marks.flatMap((ms) => [
      element("line", { x1: x(ms), x2: x(ms), y1: TOP - 6, y2: height - 4, class: "grid" }),
      label(x(ms) + 3, TOP - 8, "small", ms % 1_000 === 0 ? `${ms / 1_000} s` : `${ms / 1_000}`),
    ]),
  );
}

/** Hatchings: told apart by their direction and their density, not by colour alone. */
function patterns(id: string): string {
  const hatch = (name: string, size: number, d: string): string =>
    element(
      "pattern",
      { id: `${id}-${name}`, width: size, height: size, patternUnits: "userSpaceOnUse" },
      element("rect", { width: size, height: size, class: `hatch-ground-${name}` }),
      element("path", { d, class: `hatch hatch-${name}` }),
    );
  const head = element("path", { d: "M0,0L7,3L0,6z", class: "head" });
  return element(
    "defs",
    {},
    hatch("belief", 8, "M-2,2l4,-4M0,8l8,-8M6,10l4,-4"),
    hatch("stale", 5, "M-1,1l2,-2M0,5l5,-5M4,6l2,-2M0,0l5,5"),
    hatch("stop", 6, "M3,0v6"),
    hatch("cut", 6, "M0,3h3"),
    element(
      "marker",
      { id: `${id}-head`, markerWidth: 7, markerHeight: 6, refX: 6, refY: 3, orient: "auto" },
      head,
    ),
  );
}

function short(name: string): string {
  return name.length > 12 ? `${name.slice(0, 11)}…` : name;
}
