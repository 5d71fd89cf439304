/**
 * A run as pictures tell it: who held, who believed so, what the resource accepted, and what was
 * done to them, each with its beginning and end. Made from a history alone, so that a recorded one
 * is drawn like a simulated one.
 */
import type { EventOf, HistoryEvent } from "../history.js";
import { beliefsOf, grantsOf, overlapsOf, type Belief, type Holding, type Span } from "./spans.js";
import { bandsOf, type Band } from "./bands.js";
import { clashesOf, windowsOf, type Clash, type OpenWindow } from "./clashes.js";
import { refusalsOf } from "./refusals.js";
import { nameTokens, type TokenNames } from "./names.js";
import type { Reported } from "./reported.js";
import { verdictsOf, type Verdict } from "./verdicts.js";

/** An operation at the resource. */
export type Operation = EventOf<"arm" | "read" | "write">;

/** A run, ready to be drawn. Times in milliseconds of the run. */
export interface Story extends Reported {
  /** Where the pictures begin; what was over before is not in them. */
  readonly fromMs: number;
  readonly toMs: number;
  readonly names: TokenNames;
  readonly clients: readonly string[];
  /** Whoever else sends, is sent to, or has something done to it: servers of a store. */
  readonly servers: readonly string[];
  readonly stores: readonly string[];
  /** Lines of what the stores say: one for each store, or for each name. */
  readonly lanes: readonly string[];
  readonly resources: readonly string[];
  readonly grants: readonly Holding[];
  readonly beliefs: readonly Belief[];
  /** Times in which two clients believed to hold one name. */
  readonly overlaps: readonly Span[];
  readonly bands: readonly Band[];
  readonly operations: readonly Operation[];
  /** Why the refused ones were refused. */
  readonly refusals: ReadonlyMap<HistoryEvent, string>;
  readonly messages: readonly EventOf<"message">[];
  /** Acknowledged updates that were wiped out, with what did it. */
  readonly clashes: readonly Clash[];
  readonly windows: readonly OpenWindow[];
  readonly verdicts: readonly Verdict[];
}

/** The story of a run. */
export function storyOf(reported: Reported): Story {
  const { events } = reported;
  const kinds = <K extends HistoryEvent["kind"]>(...wanted: readonly K[]): EventOf<K>[] =>
    events.filter(({ kind }) => wanted.includes(kind as K)) as EventOf<K>[];
  const toMs = endOf(events);
  const fromMs = Math.max(0, toMs - (reported.lastMs ?? toMs));
  const shows = (one: { readonly toMs: number }): boolean => one.toMs >= fromMs;
  const isShown = (one: { readonly atMs: number }): boolean => one.atMs >= fromMs;
  const grants = grantsOf(events, toMs);
  const beliefs = beliefsOf(events, grants, toMs);
  const operations = kinds("arm", "read", "write");
  const messages = kinds("message");
  const names = nameTokens(events);
  const bands = bandsOf(events, toMs);
  const clients = clientsOf(events);
  const stores = [...new Set(grants.map(({ store }) => store))];
  const resources = sorted(operations.map(({ resource }) => resource));
  const lanes = sorted(grants.map(({ lane }) => lane));
  const keys = grants.map(({ key }) => key);
  const known = new Set([...clients, ...lanes, ...keys, ...resources, "resource"]);
  return {
    ...reported,
    fromMs,
    toMs,
    names,
    refusals: refusalsOf(operations, names),
    clients,
    servers: serversOf(messages, bands, known),
    stores,
    lanes,
    resources,
    grants: grants.filter(shows),
    beliefs: beliefs.filter(shows),
    overlaps: overlapsOf(beliefs).filter(shows),
    bands: bands.filter(shows),
    operations: operations.filter(isShown),
    messages: messages.filter(isShown),
    clashes: clashesOf(operations, events).filter(({ by }) => isShown(by)),
    windows: windowsOf(grants, operations).filter(shows),
    verdicts: verdictsOf(reported),
  };
}

/** Everybody who was granted something, believed something or did something, by name. */
function clientsOf(events: readonly HistoryEvent[]): readonly string[] {
  const found = new Set<string>();
  for (const event of events) {
    if ("client" in event && event.client !== undefined && event.client !== "?") {
      found.add(event.client);
    }
  }
  return sorted([...found]);
}

function serversOf(
  messages: readonly EventOf<"message">[],
  bands: readonly Band[],
  known: ReadonlySet<string>,
): readonly string[] {
  const struck = bands.flatMap(({ target }) => target.split("→"));
  const all = [...messages.flatMap(({ from, to }) => [from, to]), ...struck];
  return sorted(all.filter((name) => !known.has(name)));
}

/** Each once, and 2 before 10. */
function sorted(names: readonly string[]): readonly string[] {
  const order = new Intl.Collator("en", { numeric: true });
  return [...new Set(names)].sort((a, b) => order.compare(a, b));
}

/** The last moment at which something happened, and a little more; never zero. */
function endOf(events: readonly HistoryEvent[]): number {
  let lastMs = 0;
  for (const event of events) {
    lastMs = Math.max(lastMs, event.atMs);
  }
  return Math.max(lastMs * 1.03, 1);
}
