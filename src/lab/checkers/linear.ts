/**
 * I4 from outside: whether some order of the operations on a fenced register explains what its
 * clients were told. It knows nothing of the order in which the resource really decided.
 *
 * The state is the mark F = (token, holder, arm, n) and a value. The search goes through the
 * history once, with all states that are possible so far, each with the operations under way that
 * have had their effect in it. At each answer it lets operations take effect until the answered one
 * has, and keeps the states in which that answer is the right one (Wing and Gong's search, with the
 * states of equal futures folded into one). An operation whose outcome is unknown may have its
 * effect at any later time, or never; it is forgotten once no state would accept it any more.
 */
import type { EventOf, HistoryEvent } from "../history.js";
import { copiesOf } from "./copies.js";
import type { Violation } from "./violation.js";

/** States looked at before the search gives up. */
const MOST_STATES = 200_000;

/** What the search came to. `unknown` is no pass: it gave up. */
export interface LinearVerdict {
  readonly resource: string;
  readonly verdict: "ok" | "violation" | "unknown";
  readonly text: string;
  readonly atMs: number;
  /** States looked at. */
  readonly states: number;
}

interface Operation {
  readonly id: number;
  readonly asked: EventOf<"asked">;
  readonly token: bigint;
  /** `copied`: refused, and it came twice, so that the other copy may have been accepted. */
  readonly outcome: "accepted" | "refused" | "unknown" | "copied";
  /** What an accepted read saw. */
  readonly saw: number | undefined;
}

interface State {
  readonly token: bigint;
  readonly holder: string;
  readonly arm: number;
  readonly n: number;
  readonly value: number;
  /** Operations under way that have had their effect. */
  readonly done: ReadonlySet<number>;
}

const FIRST: State = { token: -1n, holder: "", arm: 0, n: 0, value: 0, done: new Set() };

/**
 * A verdict for each fenced register. One whose mark was lost has no rules to be held to.
 *
 * @param mostStates states that are looked at before the search gives up; default 200,000
 */
export function checkLinear(
  events: readonly HistoryEvent[],
  mostStates: number = MOST_STATES,
): readonly LinearVerdict[] {
  const lost = new Set<string>();
  const byResource = new Map<string, EventOf<"asked" | "answered">[]>();
  for (const event of events) {
    if (event.kind === "fault" && event.what === "lose-mark") lost.add(event.target);
    if (event.kind !== "asked" && event.kind !== "answered") continue;
    const all = byResource.get(event.resource);
    if (all === undefined) byResource.set(event.resource, [event]);
    else all.push(event);
  }
  const copies = copiesOf(events);
  return [...byResource]
    .filter(([resource]) => !lost.has(resource))
    .map(([resource, all]) => new Search(resource, all, copies, mostStates).run());
}

/** What is not linearizable, or could not be decided, as violations. */
export function linearViolations(events: readonly HistoryEvent[]): readonly Violation[] {
  return checkLinear(events)
    .filter(({ verdict }) => verdict !== "ok")
    .map(({ text, atMs }) => ({ invariant: "I4", text, atMs }));
}

class Search {
  readonly #resource: string;
  readonly #events: readonly EventOf<"asked" | "answered">[];
  readonly #operations = new Map<number, Operation>();
  /** Under way, or of unknown outcome and still possible. */
  readonly #open = new Map<number, Operation>();
  readonly #mostStates: number;
  #states: State[] = [FIRST];
  #seen = 0;

  constructor(
    resource: string,
    events: readonly EventOf<"asked" | "answered">[],
    copies: ReadonlySet<string>,
    mostStates: number,
  ) {
    this.#resource = resource;
    this.#mostStates = mostStates;
    this.#events = events;
    const answers = new Map<number, EventOf<"answered">>();
    for (const event of events) if (event.kind === "answered") answers.set(event.id, event);
    for (const asked of events) {
      if (asked.kind !== "asked") continue;
      const { id, client, op, atMs } = asked;
      const answer = answers.get(id);
      const isCopied = answer?.outcome === "refused" && copies.has(`${client} ${op} ${atMs}`);
      const outcome = isCopied ? "copied" : (answer?.outcome ?? "unknown");
      const token = BigInt(asked.token);
      this.#operations.set(id, { id, asked, token, outcome, saw: answer?.value });
    }
  }

  run(): LinearVerdict {
    for (const event of this.#events) {
      const operation = this.#operations.get(event.id)!;
      if (event.kind === "asked") {
        this.#begin(operation);
        continue;
      }
      if (operation.outcome === "unknown") continue;
      const left = this.#end(operation);
      if (left === "ok") continue;
      const { client, op, token, arm, n } = operation.asked;
      const what = `${op} of ${client} (token ${token}, arm ${arm}, n ${n})`;
      const text =
        left === "unknown"
          ? `undecided after ${this.#seen} states: ${what}`
          : `no order of operations explains that ${what} was ${event.outcome}`;
      return this.#verdict(left, text, event.atMs);
    }
    return this.#verdict("ok", "", 0);
  }

  #verdict(verdict: LinearVerdict["verdict"], text: string, atMs: number): LinearVerdict {
    return { resource: this.#resource, verdict, text, atMs, states: this.#seen };
  }

  #begin(operation: Operation): void {
    const { outcome, asked, id } = operation;
    // A read of unknown outcome explains nothing and excludes nothing.
    if (outcome === "unknown" && asked.op === "read") return;
    this.#open.set(id, operation);
    this.#states = this.#states.map((state) => this.#settled(state));
  }

  /** Lets operations take effect until this one has, in every state from which that can be. */
  #end(operation: Operation): LinearVerdict["verdict"] {
    const { id } = operation;
    const reached = new Map<string, State>();
    const known = new Set<string>();
    const ahead = [...this.#states];
    for (let state = ahead.pop(); state !== undefined; state = ahead.pop()) {
      if (++this.#seen > this.#mostStates) return "unknown";
      if (state.done.has(id)) {
        const done = new Set(state.done);
        done.delete(id);
        const kept = { ...state, done };
        reached.set(keyOf(kept), kept);
        continue;
      }
      for (const next of this.#steps(state)) {
        const key = keyOf(next);
        if (known.has(key)) continue;
        known.add(key);
        ahead.push(next);
      }
    }
    if (reached.size === 0) return "violation";
    this.#open.delete(id);
    this.#states = [...reached.values()];
    this.#forget();
    return "ok";
  }

  /** Every state that one more effect leads to. */
  *#steps(state: State): Generator<State> {
    for (const { id, asked, token, outcome } of this.#open.values()) {
      if (asked.op === "read" || outcome === "refused" || state.done.has(id)) continue;
      if (!accepts(state, asked, token)) continue;
      const { holder, arm, n } = asked;
      const value = asked.op === "write" ? (asked.value ?? state.value) : state.value;
      const done = new Set(state.done).add(id);
      yield this.#settled({ token, holder, arm, n, value, done });
    }
  }

  /** What has no effect is done as soon as the state explains it: nothing is lost by that. */
  #settled(state: State): State {
    let done: Set<number> | undefined;
    for (const { id, asked, token, outcome, saw } of this.#open.values()) {
      if (state.done.has(id) || outcome === "unknown") continue;
      const isAccepted = accepts(state, asked, token);
      const isRead = asked.op === "read" && outcome === "accepted";
      const fits = isRead
        ? isAccepted && saw === state.value
        : outcome !== "accepted" && !isAccepted;
      if (fits) done = (done ?? new Set(state.done)).add(id);
    }
    return done === undefined ? state : { ...state, done };
  }

  /** Unknown outcomes that no state accepts any more: since marks only grow, none ever will. */
  #forget(): void {
    for (const { id, asked, token, outcome } of [...this.#open.values()]) {
      if (outcome !== "unknown") continue;
      const isOver = this.#states.every(
        (state) => state.done.has(id) || isPast(state, asked, token),
      );
      if (!isOver) continue;
      this.#open.delete(id);
      const folded = new Map<string, State>();
      for (const state of this.#states) {
        const done = new Set(state.done);
        done.delete(id);
        const kept = { ...state, done };
        folded.set(keyOf(kept), kept);
      }
      this.#states = [...folded.values()];
    }
  }
}

/** The rules of I4, written down once more: a checker that asked the fence would believe it. */
function accepts(state: State, asked: EventOf<"asked">, token: bigint): boolean {
  const isOwn = token === state.token && asked.holder === state.holder;
  if (asked.op === "arm") return token > state.token || (isOwn && asked.arm > state.arm);
  return isOwn && asked.arm === state.arm && (asked.op === "read" || asked.n > state.n);
}

/** Whether the mark has left an operation behind. */
function isPast(state: State, asked: EventOf<"asked">, token: bigint): boolean {
  if (token !== state.token) return token < state.token;
  if (asked.holder !== state.holder) return true;
  if (asked.op === "arm" || asked.arm !== state.arm) return asked.arm <= state.arm;
  return asked.n <= state.n;
}

function keyOf({ token, holder, arm, n, value, done }: State): string {
  const ids = [...done].sort((a, b) => a - b).join(",");
  return `${token} ${holder} ${arm} ${n} ${value} ${ids}`;
}
