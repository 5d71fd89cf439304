/** Faults as pictures show them: with a beginning and an end where they have one. */
import type { EventOf, HistoryEvent } from "../history.js";
import type { Span } from "./spans.js";

/** A fault, over the time that it lasted; an instant where it has no end. */
export interface Band extends Span {
  readonly what: string;
  /** A process, or a direction `A→B`. */
  readonly target: string;
  readonly isInstant: boolean;
}

/** What ends what: of the same target. */
const ENDED_BY: Readonly<Record<string, string>> = {
  pause: "resume",
  suspend: "resume",
  "freeze-machine": "resume",
  cut: "heal",
};

const ENDS: ReadonlySet<string> = new Set(Object.values(ENDED_BY));

/** Faults that last until the end of the run. */
const FOR_EVER: ReadonlySet<string> = new Set(["kill"]);

/** The faults of a history, in order. */
export function bandsOf(events: readonly HistoryEvent[], endMs: number): readonly Band[] {
  const faults = events.filter((event): event is EventOf<"fault"> => event.kind === "fault");
  return faults.flatMap((fault, nth): Band[] => {
    const { what, target, atMs } = fault;
    if (ENDS.has(what)) return [];
    const end = ENDED_BY[what];
    if (end !== undefined) {
      const ending = faults.slice(nth + 1).find((one) => one.what === end && one.target === target);
      return [{ what, target, fromMs: atMs, toMs: ending?.atMs ?? endMs, isInstant: false }];
    }
    if (FOR_EVER.has(what)) return [{ what, target, fromMs: atMs, toMs: endMs, isInstant: false }];
    const label = jump(fault);
    return [{ what: label, target, fromMs: atMs, toMs: atMs, isInstant: true }];
  });
}

/** A fault with a sign where it has a direction in time. */
function jump({ what, forMs }: EventOf<"fault">): string {
  if (forMs === undefined) return what;
  const sign = forMs < 0 ? "−" : "+";
  return `${what} ${sign}${Math.abs(Math.round(forMs))} ms`;
}
