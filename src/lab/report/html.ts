/** A run as one page: no other file, no network; by keyboard, in words, in light and dark. */
import type { Violation } from "../checkers/violation.js";
import type { HistoryEvent } from "../history.js";
import { element, escape } from "./markup.js";
import { seconds } from "./names.js";
import { MOST_LANES, pictureOf } from "./picture.js";
import type { Reported } from "./reported.js";
import type { Scale } from "./scale.js";
import { SCRIPT } from "./script.js";
import { storyOf, type Story } from "./story.js";
import { PICTURE_STYLE, STYLE } from "./style.js";
import { sentences, verdictLine } from "./summary.js";
import type { Verdict } from "./verdicts.js";
import { ROUTINE, tell } from "./words.js";
import { LEGEND } from "./legend.js";
import { leaveOutControl } from "./leave-out.js";

/** A page with more rows than this is slow to open. */
const MOST_ROWS = 600;

/** Says what may be loaded: nothing. */
const POLICY =
  "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:";

/**
 * A page that shows one or more runs below each other on one scale of time: usually one seed under
 * each fence. `first` is the fence of the panel that is stepped through at the beginning.
 */
export function html(runs: readonly Reported[], first?: string): string {
  const stories = runs.map(storyOf);
  const startMs = Math.min(...stories.map(({ fromMs }) => fromMs));
  const times = [startMs, Math.max(1, ...stories.map(({ toMs }) => toMs))] as const;
  const moments = stories.flatMap(momentsOf);
  const chosen = Math.max(
    0,
    stories.findIndex(({ fence }) => fence === first),
  );
  const panels = stories.map((story, nth) => panel(story, nth, times, moments, nth === chosen));
  const [story] = stories;
  const title = `${story?.scenario ?? "a history"}, seed ${story?.seed ?? "as recorded"}`;
  const head = [
    `<meta charset="utf-8">`,
    `<meta name="viewport" content="width=device-width, initial-scale=1">`,
    `<meta http-equiv="Content-Security-Policy" content="${POLICY}">`,
    `<link rel="icon" href="data:,">`,
    element("title", {}, escape(title)),
    `<style>${STYLE}${PICTURE_STYLE}</style>`,
  ];
  const body = [header(title, story), ...panels, element("script", {}, SCRIPT)];
  return (
    `<!doctype html>\n<html lang="en">\n<head>\n${head.join("\n")}\n</head>\n` +
    `<body>\n${body.join("\n")}\n</body>\n</html>\n`
  );
}

function header(title: string, story: Story | undefined): string {
  const about = story?.title === undefined ? "" : element("p", {}, escape(story.title));
  const keys =
    "<kbd>←</kbd> <kbd>→</kbd> step through what happened, <kbd>Home</kbd> <kbd>End</kbd>, " +
    "<kbd>1</kbd> <kbd>2</kbd> <kbd>3</kbd> choose a panel. Quiet time is drawn shorter.";
  return element(
    "header",
    {},
    element("h1", {}, escape(title)),
    about,
    element("p", {}, keys),
    element("details", {}, element("summary", {}, "What the signs mean"), LEGEND),
  );
}

function panel(
  story: Story,
  nth: number,
  times: readonly [number, number],
  moments: readonly number[],
  isFirst: boolean,
): string {
  const name = story.fence === undefined ? "as recorded" : `--fence ${story.fence}`;
  const { replay, without = [] } = story;
  const takes = without.map(({ reported }, i) => {
    const less = storyOf(reported);
    const [fromMs, toMs] = times;
    const own = [fromMs, Math.max(toMs, less.toMs)] as const;
    return take(less, `p${nth}t${i + 1}`, own, [...moments, ...momentsOf(less)], i + 1);
  });
  return element(
    "section",
    {
      class: `panel ${isBad(story) ? "loses" : "holds"}${isFirst ? " active" : ""}`,
      tabindex: 0,
      "aria-label": name,
      "data-fence": story.fence ?? "recorded",
    },
    element("h2", {}, `${nth + 1} · <code>${escape(name)}</code>`),
    leaveOutControl(story, `leave-out-${nth}`),
    take(story, `p${nth}`, times, moments, 0),
    ...takes,
    replay === undefined ? "" : element("p", {}, "Again: ", element("code", {}, escape(replay))),
  );
}

function isBad({ clashes, violations }: Story): boolean {
  return clashes.length > 0 || violations.length > 0;
}

/** One run of a panel: the run as it was is 0, the others are hidden at first. */
function take(
  story: Story,
  id: string,
  times: readonly [number, number],
  moments: readonly number[],
  nth: number,
): string {
  const { svg, x } = pictureOf(story, id, times, moments);
  const rows = rowsOf(story);
  const loses = isBad(story);
  const suffix = nth === 0 ? "" : `-without-${nth}`;
  const file = `${story.scenario}-${story.fence ?? "recorded"}${suffix}.svg`;
  return element(
    "div",
    {
      class: `take ${loses ? "loses" : "holds"}`,
      "data-take": nth,
      hidden: nth === 0 ? undefined : "",
    },
    element(
      "div",
      { class: "head" },
      element("span", { class: "outcome" }, escape(`${loses ? "✗" : "✓"} ${outcome(story)}`)),
      element("span", {}, escape(verdictLine(story))),
    ),
    ...sentences(story)
      .slice(0, 5)
      .map((text) => element("p", { class: "sentence" }, escape(text))),
    element("ul", { class: "verdicts", "aria-label": "invariants" }, ...chips(story, rows)),
    element("div", { class: "scroll" }, svg),
    hidden(story),
    controls(file),
    events(story, rows, x),
  );
}

function outcome({ clashes, violations, operations }: Story): string {
  if (clashes.length > 0)
    return clashes.length === 1 ? "1 update lost" : `${clashes.length} updates lost`;
  if (violations.length > 0) return `${violations.length} breaches`;
  const refused = operations.filter(({ accepted }) => !accepted).length;
  return refused > 0 ? "no update lost; what came late was refused" : "no update lost";
}

/** One sign for each invariant; a breach leads to the moment at which it was seen. */
function chips(story: Story, rows: readonly number[]): readonly string[] {
  const sign = { pass: "✓", fail: "✗", unknown: "?" };
  return story.verdicts.map(({ id, is, says, why, violations }: Verdict) => {
    const text = `${sign[is]} ${id}`;
    const title = `${id}, ${is}: ${says}${why === undefined ? "" : ` (${why})`}`;
    const [breach] = violations;
    if (breach === undefined) {
      return element("li", {}, element("span", { class: `chip ${is}`, title }, text));
    }
    const [row, other] = rowsOfBreach(story, rows, breach);
    const attributes = {
      ...{ class: `chip ${is}`, title: `${title}; shows what conflicts`, type: "button" },
      ...{ "data-row": row, "data-with": other },
    };
    return element("li", {}, element("button", attributes, text));
  });
}

/** The row in which a breach was seen, and of a lost update that of the write that it wiped out. */
function rowsOfBreach(
  { events: all, clashes }: Story,
  rows: readonly number[],
  { invariant, atMs }: Violation,
): readonly [number, number | undefined] {
  const clash = invariant === "I5" ? clashes.find(({ by }) => by.atMs === atMs) : undefined;
  const rowOf = (event: HistoryEvent | undefined): number =>
    rows.findIndex((at) => all[at] === event);
  if (clash?.wiped !== undefined) return [rowOf(clash.by), rowOf(clash.wiped)];
  return [
    Math.max(
      0,
      rows.findIndex((at) => all[at]!.atMs >= atMs),
    ),
    undefined,
  ];
}

function controls(file: string): string {
  const step = (by: number, text: string, name: string): string =>
    element("button", { type: "button", "data-step": by, "aria-label": name }, text);
  return element(
    "div",
    { class: "controls" },
    step(-1, "◀", "one step back"),
    step(1, "▶", "one step on"),
    element("button", { type: "button", "data-save": file }, "Save as SVG"),
    element("output", { "aria-live": "polite" }, "press → to step through what happened"),
  );
}

/** The same in words: where a picture cannot be seen, and to be copied. */
function events(story: Story, rows: readonly number[], x: Scale): string {
  const written = rows.map((at) => {
    const event = story.events[at]!;
    const isRefused = "accepted" in event && !event.accepted;
    return element(
      "tr",
      { "data-x": x(event.atMs), class: isRefused ? "refused" : undefined },
      element("td", {}, seconds(event.atMs)),
      element("td", {}, escape(event.kind)),
      element("td", {}, escape(tell(event, story))),
    );
  });
  const titles = ["time", "what", "in words"].map((name) => element("th", { scope: "col" }, name));
  return element(
    "details",
    {},
    element("summary", {}, `What happened, in words (${rows.length} rows)`),
    element(
      "div",
      { class: "rows" },
      element(
        "table",
        {},
        element("thead", {}, element("tr", {}, ...titles)),
        element("tbody", {}, ...written),
      ),
    ),
  );
}

/** Places in the history of what has a row: all but what is routine. */
function rowsOf({ events: all, fromMs }: Story): readonly number[] {
  const rows = all.flatMap((event, at) => {
    if (event.atMs < fromMs) return [];
    if (event.kind === "message") return event.fate === "lost" ? [at] : [];
    return ROUTINE.has(event.kind) && event.kind !== "acked" ? [] : [at];
  });
  return rows.slice(0, MOST_ROWS);
}

/** What the picture leaves out, said in words. */
function hidden({ clients, lanes, servers, resources }: Story): string {
  const all = [clients, lanes, servers, resources];
  const left = all.reduce((sum, { length }) => sum + Math.max(0, length - MOST_LANES), 0);
  return left <= 0 ? "" : element("p", {}, `… and ${left} more, who are in the table only.`);
}

/** Moments between which there may be quiet. */
function momentsOf({ events: all }: Story): readonly number[] {
  return all.flatMap((event) => {
    if (event.kind === "extend") return [];
    if (event.kind !== "message") return [event.atMs];
    return /^(arm|read|write)/.test(event.what) ? [event.sentMs, event.atMs] : [];
  });
}
