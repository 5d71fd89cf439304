/** A run as lines of text: time from left to right, one lane for each truth. */
import { seconds } from "./names.js";
import type { Reported } from "./reported.js";
import { storyOf, type Operation, type Story } from "./story.js";
import { Strip } from "./strip.js";
import { summaryOf } from "./summary.js";
import { ROUTINE, tell } from "./words.js";

/** Settings of a timeline. */
export interface TimelineOptions {
  /** Characters in a line. Default 100, least 60. */
  readonly width?: number;
  /** How many of what happened to list below the picture. Default 24. */
  readonly rows?: number;
}

const LABEL = 10;
/** Operations that find no place in so many lines are in the list below, and in the page. */
const MOST_OPERATION_LINES = 4;
/** Lanes beyond these would not be read: 500 waiters are a herd, not a picture. */
const MOST_LANES = 8;

/** Draws a run for a terminal. Plain characters, no colour. */
export function timeline(reported: Reported, options: TimelineOptions = {}): string {
  const story = storyOf(reported);
  const width = Math.max(60, options.width ?? 100) - LABEL;
  const lane = (): Strip => new Strip(width, story.fromMs, story.toMs);
  const lines = [
    ...headOf(story),
    labelled("", axis(story, width)),
    ...story.lanes
      .slice(0, MOST_LANES)
      .map((store) => labelled(store, storeLane(story, store, lane()))),
    ...struckServers(story).map((server) => labelled(server, serverLane(story, server, lane()))),
    ...story.clients
      .slice(0, MOST_LANES)
      .flatMap((client) => [
        labelled(client, clientLane(story, client, lane())),
        labelled(" belief", beliefLane(story, client, lane())),
      ]),
    ...more(story.clients.length - MOST_LANES),
    ...story.resources
      .slice(0, MOST_LANES)
      .flatMap((resource) => resourceLanes(story, resource, lane)),
    "",
    ...summaryOf(story),
    "",
    ...eventRows(story, options.rows ?? 24),
  ];
  return `${lines.map((line) => line.trimEnd()).join("\n")}\n`;
}

function headOf({ scenario, title, fence, seed }: Story): string[] {
  const settings = [
    ...(fence === undefined ? [] : [`--fence ${fence}`]),
    ...(seed === undefined ? [] : [`--seed ${seed}`]),
  ];
  const about = title === undefined ? [] : [title];
  return [[scenario, ...settings].join(" "), ...about, ""];
}

function labelled(label: string, text: string): string {
  return `${label.slice(0, LABEL - 1).padEnd(LABEL)}${text}`;
}

function more(hidden: number): string[] {
  return hidden > 0 ? [labelled("", `… and ${hidden} more clients`)] : [];
}

/** Marks of time, a round number of seconds apart. */
function axis({ fromMs, toMs }: Story, width: number): string {
  const strip = new Strip(width, fromMs, toMs, " ");
  const wanted = (toMs - fromMs) / Math.max(2, Math.floor(width / 14));
  const unit = 10 ** Math.floor(Math.log10(wanted));
  const step = [1, 2, 5, 10].map((times) => times * unit).find((ms) => ms >= wanted) ?? wanted;
  for (let ms = Math.ceil(fromMs / step) * step; ms <= toMs; ms += step) {
    const places = Math.max(0, 3 - Math.floor(Math.log10(step)));
    strip.write(ms, toMs < 1_000 ? `${Math.round(ms)}ms` : `${(ms / 1_000).toFixed(places)}s`);
  }
  return strip.text;
}

/** Solid bars: what the store says. */
function storeLane(story: Story, store: string, strip: Strip): string {
  const { grants, names } = story;
  for (const { fromMs, toMs, client, token, why, ...grant } of grants) {
    if (grant.lane !== store) continue;
    strip.fill(fromMs, toMs, "=");
    strip.put(fromMs, "[");
    if (why !== undefined) strip.put(toMs, why === "released" ? "]" : "x");
    strip.inside(fromMs, toMs, `${client} t=${names(token)}`);
  }
  drawFaults(story, store, strip);
  return strip.text;
}

/** Servers without grants of their own have a lane when something is done to them. */
function struckServers({ servers, bands }: Story): readonly string[] {
  const struck = servers.filter((server) => bands.some(({ target }) => target === server));
  return struck.slice(0, MOST_LANES);
}

/** A server that only something was done to. */
function serverLane(story: Story, server: string, strip: Strip): string {
  drawFaults(story, server, strip);
  return strip.text;
}

/** What a client does: waits, works, stands still. */
function clientLane(story: Story, client: string, strip: Strip): string {
  const asks = story.messages.filter(
    ({ from, what }) => from === client && (what === "acquire" || what === "enqueue"),
  );
  for (const { fromMs } of story.grants.filter((grant) => grant.client === client)) {
    const before = story.beliefs.filter((one) => one.client === client && one.toMs <= fromMs);
    const sinceMs = before.at(-1)?.toMs ?? 0;
    const asked = asks.find(({ sentMs }) => sentMs >= sinceMs && sentMs <= fromMs);
    if (asked !== undefined) strip.fill(asked.sentMs, fromMs, ".");
  }
  for (const { fromMs, toMs } of story.beliefs.filter((one) => one.client === client)) {
    strip.fill(fromMs, toMs, "#");
  }
  drawFaults(story, client, strip);
  return strip.text;
}

/** What was done to a process, over what it does. */
function drawFaults(story: Story, name: string, strip: Strip): void {
  for (const { what, target, fromMs, toMs, isInstant } of story.bands) {
    const isOwn = target === name || target.startsWith(`${name}→`);
    if (!isOwn) continue;
    if (isInstant) strip.write(fromMs, `^${what}`);
    else if (target !== name) strip.inside(fromMs, toMs, `/${what}/`);
    else {
      strip.fill(fromMs, toMs, what === "kill" ? " " : "|");
      strip.put(fromMs, what === "kill" ? "+" : "|");
      strip.inside(fromMs, toMs, ` ${what.toUpperCase()} `);
    }
  }
}

/** What a client believes of its lease; `!` where the store has let go already. */
function beliefLane(story: Story, client: string, strip: Strip): string {
  for (const belief of story.beliefs.filter((one) => one.client === client)) {
    const { fromMs, toMs, staleFromMs, token, isDoubtful } = belief;
    strip.fill(fromMs, toMs, isDoubtful ? "?" : "~");
    strip.put(fromMs, "[");
    if (staleFromMs !== undefined) strip.fill(staleFromMs, toMs, "!");
    strip.put(toMs, "]");
    strip.inside(fromMs, staleFromMs ?? toMs, `held ${story.names(token)}`);
    if (staleFromMs !== undefined) strip.inside(staleFromMs, toMs, " stale belief ");
  }
  return strip.text;
}

/** What the resource did, its mark, and its value. */
function resourceLanes(story: Story, resource: string, lane: () => Strip): string[] {
  const own = story.operations.filter((one) => one.resource === resource);
  const accepted = own.filter((one) => one.accepted);
  const marks = markLane(story, accepted, lane());
  return [
    ...operationLanes(story, own, lane).map((text, nth) =>
      labelled(nth === 0 ? resource : "", text),
    ),
    ...(marks.isEmpty ? [] : [labelled(" mark", marks.text)]),
    labelled(" value", valueLane(story, accepted, lane()).text),
  ];
}

/** Operations near their moments, in as few lines as they need; what matters most comes first. */
function operationLanes(
  story: Story,
  own: readonly Operation[],
  lane: () => Strip,
): readonly string[] {
  const clashing = new Set(story.clashes.flatMap(({ wiped, by }) => [wiped, by]));
  const isBad = (one: Operation): boolean => !one.accepted || clashing.has(one);
  const strips = Array.from({ length: MOST_OPERATION_LINES }, lane);
  const near = (story.toMs - story.fromMs) / 10;
  for (const one of [...own.filter(isBad), ...own.filter((other) => !isBad(other))]) {
    const text = operationText(story, one);
    strips.some((strip) => strip.writeFree(one.atMs, text, one.atMs + near));
  }
  const used = strips.filter((strip) => !strip.isEmpty);
  return used.length === 0 ? [lane().text] : used.map(({ text }) => text);
}

function markLane(story: Story, accepted: readonly Operation[], strip: Strip): Strip {
  let mark = "";
  for (const { kind, token, atMs } of accepted) {
    const raises = kind === "arm" || (kind === "write" && story.fence === "naive");
    if (raises && mark !== token) strip.write(atMs, `^${story.names((mark = token))}`);
  }
  return strip;
}

function valueLane(story: Story, accepted: readonly Operation[], strip: Strip): Strip {
  let now = 0;
  if (story.fromMs === 0) strip.write(0, "v0");
  for (const one of accepted) {
    if (one.kind !== "write" || one.value === undefined || one.value === now) continue;
    const lost = story.clashes.find(({ by }) => by === one)?.wiped?.value;
    const text = `>v${(now = one.value)}`;
    if (lost !== undefined) strip.write(one.atMs, `${text} v${lost} LOST`);
    else strip.writeFree(one.atMs, text, one.atMs + (story.toMs - story.fromMs) / 20);
  }
  return strip;
}

function operationText({ names, refusals }: Story, operation: Operation): string {
  const { kind, client, token, accepted, value } = operation;
  if (!accepted) return `${client}:${kind}X ${refusals.get(operation) ?? "stale"}`;
  if (kind === "arm") return `${client}:ARM(${names(token)})`;
  return `${client}:${kind}(${names(token)})v${value ?? 0}`;
}

/** What is worth a line of its own. */
function eventRows(story: Story, most: number): string[] {
  const rows = story.events.filter((event) => {
    if (event.atMs < story.fromMs) return false;
    if (event.kind === "message") return event.fate === "lost";
    return !ROUTINE.has(event.kind);
  });
  const shown = rows.slice(0, most);
  const left = rows.length - shown.length;
  return [
    ...shown.map((event) => `${seconds(event.atMs).padStart(11)}  ${tell(event, story)}`),
    ...(left > 0 && most > 0 ? [`${"".padStart(13)}… ${left} more: --html FILE shows them`] : []),
  ];
}
