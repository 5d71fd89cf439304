/** A history that was written down: by the lab, or by the logs of a real system. */
import { checkBeliefs } from "../checkers/belief.js";
import { checkElections } from "../checkers/election.js";
import { linearViolations } from "../checkers/linear.js";
import { checkFence, checkOutcomes, checkRefusals, checkUpdates } from "../checkers/register.js";
import { checkStore } from "../checkers/store.js";
import type { InvariantId, Violation } from "../checkers/violation.js";
import type { FactKind, HistoryEvent } from "../history.js";

/** What is wrong with a line. */
export interface BadLine {
  /** Counted from 1. */
  readonly line: number;
  readonly why: string;
}

/** What was read of a history. */
export interface Recorded {
  readonly events: readonly HistoryEvent[];
  /** Lines that are no facts; with any of these nothing can be said of the rest. */
  readonly bad: readonly BadLine[];
}

/** What a field has to be; with `?` it may be missing. */
type Kind = "text" | "token" | "number" | "flag";
type Form = Kind | `${Kind}?` | readonly string[];
type Forms = Readonly<Record<string, Form>>;

const KEYED = { key: "text", client: "text" } as const;
const GRANTED = { key: "text", token: "token", holder: "text" } as const;
const OPERATION: Forms = {
  ...{ resource: "text", client: "text", token: "token", holder: "text", accepted: "flag" },
  ...{ scope: "text?", arm: "number?", n: "number?", value: "number?", base: "number?" },
};
/** Of a write that was refused nothing is left to know. */
const ACCEPTED_WRITE: Forms = { value: "number", base: "number" };

const FORMS: Readonly<Record<FactKind, Forms>> = {
  grant: { ...GRANTED, client: "text", ttlMs: "number", store: "text?" },
  extend: { ...GRANTED, by: "text" },
  end: {
    ...GRANTED,
    why: ["released", "expired", "broken", "forgotten"],
    ...{ by: "text?", early: "flag?" },
  },
  wait: KEYED,
  left: KEYED,
  served: KEYED,
  "gave-up": KEYED,
  believes: { ...KEYED, token: "token", leftMs: "number?" },
  doubts: { ...KEYED, token: "token" },
  stops: { ...KEYED, token: "token" },
  arm: { ...OPERATION, arm: "number", scope: "text" },
  read: OPERATION,
  write: OPERATION,
  asked: {
    ...{ resource: "text", client: "text", id: "number", op: ["arm", "read", "write"] },
    ...{ token: "token", holder: "text", arm: "number", n: "number", value: "number?" },
  },
  answered: {
    ...{ resource: "text", client: "text", id: "number", value: "number?" },
    outcome: ["accepted", "refused", "unknown"],
  },
  acked: {
    ...{ resource: "text", client: "text", token: "token", base: "number", value: "number" },
    outcome: ["ok", "unknown", "refused"],
  },
  elected: { ...KEYED, term: "token" },
  led: { ...KEYED, term: "token" },
  revoked: { ...KEYED, term: "token" },
  observed: { ...KEYED, term: "token?" },
  fault: { what: "text", target: "text", forMs: "number?" },
  message: {
    ...{ from: "text", to: "text", what: "text", sentMs: "number" },
    fate: ["arrived", "lost"],
  },
  note: { text: "text" },
  leak: { what: "text", client: "text" },
};

/** Reads lines of JSON, one fact each; empty lines are passed over. */
export function readHistory(text: string): Recorded {
  const events: HistoryEvent[] = [];
  const bad: BadLine[] = [];
  let last = { line: 0, atMs: -Infinity };
  for (const [nth, written] of text.split("\n").entries()) {
    if (written.trim() === "") continue;
    const line = nth + 1;
    const fact = parsed(written);
    const why = typeof fact === "string" ? fact : (wrong(fact) ?? backwards(fact, last));
    if (why !== undefined) {
      bad.push({ line, why });
      continue;
    }
    const event = { scope: "", arm: 0, n: 0, ...(fact as object) } as unknown as HistoryEvent;
    last = { line, atMs: event.atMs };
    events.push(isOperation(event.kind) ? event : (fact as unknown as HistoryEvent));
  }
  return { events, bad };
}

/** What no history can show, and why. */
export const UNRECORDED: Readonly<Partial<Record<InvariantId, string>>> = {
  I9: "a history does not say how long a waiter may take",
  I10: "a history does not say who was closed",
  I11: "a history does not say how long a waiter may take",
  I13: "a history is one run",
};

/** What a store may do that others may not. */
export interface RecordedRules {
  /** Whether tokens may come again, as after a failover that lost a grant. Default false. */
  readonly tokensMayRepeat?: boolean;
}

/** What the checkers say of a recorded history: the same that they say of a simulated one. */
export function checkHistory(
  events: readonly HistoryEvent[],
  { tokensMayRepeat = false }: RecordedRules = {},
): readonly Violation[] {
  const isArmed = events.some(({ kind }) => kind === "arm");
  return [
    ...checkStore(events, { tokensMayRepeat, mayHaveTwoHolders: false }),
    ...checkUpdates(events),
    ...(isArmed ? [...checkFence(events), ...linearViolations(events)] : []),
    ...(isArmed ? checkRefusals(events) : []),
    ...checkOutcomes(events),
    ...checkBeliefs(events),
    ...checkElections(events),
  ];
}

type Fields = Readonly<Record<string, unknown>>;

function parsed(written: string): Fields | string {
  try {
    const value: unknown = JSON.parse(written);
    const isObject = typeof value === "object" && value !== null && !Array.isArray(value);
    return isObject ? (value as Fields) : `a fact is an object, got ${written.slice(0, 40)}`;
  } catch (error) {
    return `it is no JSON: ${(error as Error).message}`;
  }
}

/** What is wrong with a fact, or undefined. */
function wrong(fact: Fields): string | undefined {
  const { kind } = fact;
  if (typeof kind !== "string" || !Object.hasOwn(FORMS, kind)) {
    return `kind is one of ${Object.keys(FORMS).join(" ")}, got ${show(kind)}`;
  }
  const more = kind === "write" && fact["accepted"] === true ? ACCEPTED_WRITE : {};
  const form: Forms = { atMs: "number", ...FORMS[kind as FactKind], ...more };
  for (const [name, wanted] of Object.entries(form)) {
    const why = wrongField(fact[name], wanted);
    if (why !== undefined) return `${kind}: ${name} ${why}, got ${show(fact[name])}`;
  }
  return undefined;
}

function wrongField(value: unknown, wanted: Form): string | undefined {
  if (typeof wanted !== "string") {
    return wanted.includes(value as string) ? undefined : `is one of ${wanted.join(" ")}`;
  }
  if (wanted.endsWith("?") && value === undefined) return undefined;
  switch (wanted.replace("?", "") as Kind) {
    case "text":
      return typeof value === "string" ? undefined : "is a text";
    case "flag":
      return typeof value === "boolean" ? undefined : "is true or false";
    case "number":
      return typeof value === "number" && Number.isFinite(value) ? undefined : "is a number";
    case "token":
      // A number would have lost its last digits before it came here.
      return typeof value === "string" && /^\d{1,19}$/.test(value)
        ? undefined
        : "is a token, decimal digits in quotes";
  }
}

function backwards(
  fact: Fields,
  last: { readonly line: number; readonly atMs: number },
): string | undefined {
  const atMs = fact["atMs"] as number;
  if (atMs >= last.atMs) return undefined;
  return `atMs ${atMs} is before the ${last.atMs} of line ${last.line}: facts stand in their order`;
}

function isOperation(kind: FactKind): boolean {
  return kind === "arm" || kind === "read" || kind === "write";
}

function show(value: unknown): string {
  return value === undefined ? "nothing" : JSON.stringify(value).slice(0, 40);
}
