import type { Backend, Call, QueueWaiting, Ticket } from "../core/backend.js";
import type { Timers } from "../core/clock.js";
import { OutcomeUnknownError, UnavailableError } from "../core/errors.js";
import type { FencingToken } from "../core/token.js";

/**
 * A method of a backend, of its waiting or of a ticket; `wake` is a notice on its way to a waiter,
 * which any fault loses.
 */
export type Operation =
  | "acquire"
  | "renew"
  | "release"
  | "break"
  | "inspect"
  | "enqueue"
  | "touch"
  | "turn"
  | "leave"
  | "subscribe"
  | "wake";

/**
 * What goes wrong with one call.
 *
 * - `refuse`: not applied, and the caller knows
 * - `lose-request`: not applied; `lose-reply`: applied; the caller knows neither
 * - `hang`: as before, and the caller hears nothing until it stops waiting
 * - `delay`: the request, the reply or both take that long; a caller that stops waiting does not
 *   stop the request
 * - `duplicate`: the request arrives a second time, `afterMs` after its first answer
 */
export type Fault =
  | { readonly kind: "refuse" | "lose-request" | "lose-reply" }
  | { readonly kind: "hang"; readonly applied: boolean }
  | { readonly kind: "delay"; readonly requestMs?: number; readonly replyMs?: number }
  | { readonly kind: "duplicate"; readonly afterMs: number };

/** One call as it was made. */
export interface SeenCall {
  readonly operation: Operation;
  /** Counts the calls of this operation from 1. */
  readonly nth: number;
  /** Names that the call was about. */
  readonly names: readonly string[];
  readonly holders: readonly string[];
}

/** Decides for each call what goes wrong with it; undefined lets it through. */
export type FaultPlan = (call: SeenCall) => Fault | undefined;

/** A backend whose calls can go wrong. */
export interface FaultyBackend<T extends FencingToken | undefined> extends Backend<T> {
  /** May be changed at any time; counts for calls made from then on. */
  plan: FaultPlan;
  /** All calls so far, in order of being made. */
  readonly calls: readonly SeenCall[];
}

interface Subject {
  readonly name: string;
  readonly holder: string;
}

/** The same backend, with the faults of a plan between it and its caller. */
export function withFaults<T extends FencingToken | undefined>(
  backend: Backend<T>,
  timers: Timers,
  plan: FaultPlan = () => undefined,
): FaultyBackend<T> {
  const calls: SeenCall[] = [];
  const counts = new Map<Operation, number>();

  function look(operation: Operation, about: readonly Subject[]): Fault | undefined {
    const nth = (counts.get(operation) ?? 0) + 1;
    counts.set(operation, nth);
    const names = about.map(({ name }) => name);
    const call = { operation, nth, names, holders: about.map(({ holder }) => holder) };
    calls.push(call);
    return faulty.plan(call);
  }

  function through<R>(
    operation: Operation,
    about: readonly Subject[],
    signal: AbortSignal,
    apply: () => Promise<R>,
  ): Promise<R> {
    const fault = look(operation, about);
    return fault === undefined ? apply() : suffer(fault, timers, signal, apply);
  }

  function faultyWaiting(waiting: Backend<T>["waiting"]): Backend<T>["waiting"] {
    switch (waiting.kind) {
      case "poll":
        return waiting;
      case "queue":
        return faultyQueue(waiting, through);
      case "notify":
        return {
          kind: "notify",
          subscribe: (name, wake, call) => {
            const about = [{ name, holder: "" }];
            const hear = (): void => void (look("wake", about) === undefined && wake());
            return through("subscribe", about, call.signal, async () =>
              waiting.subscribe(name, hear, call),
            );
          },
        };
    }
  }

  const faulty: FaultyBackend<T> = {
    plan,
    calls,
    // Both may change when the backend is opened.
    get manifest() {
      return backend.manifest;
    },
    get storeId() {
      return backend.storeId;
    },
    ...(backend.open === undefined ? {} : { open: (call) => backend.open!(call) }),
    ...(backend.proof === undefined ? {} : { proof: (grant) => backend.proof!(grant) }),
    ...(backend.sessions === undefined ? {} : { sessions: backend.sessions }),
    acquire: (request, call) =>
      through("acquire", [request], call.signal, async () => backend.acquire(request, call)),
    renew: (grants, call) =>
      through("renew", grants, call.signal, async () => backend.renew(grants, call)),
    release: (requests, call) =>
      through("release", requests, call.signal, async () => backend.release(requests, call)),
    break: (name, token, call) =>
      through("break", [{ name, holder: "" }], call.signal, () => backend.break(name, token, call)),
    inspect: (name, call) =>
      through("inspect", [{ name, holder: "" }], call.signal, () => backend.inspect(name, call)),
    list: (prefix, call) => backend.list(prefix, call),
    waiting: faultyWaiting(backend.waiting),
    close: () => backend.close(),
  };
  return faulty;
}

type Through = <R>(
  operation: Operation,
  about: readonly Subject[],
  signal: AbortSignal,
  apply: () => Promise<R>,
) => Promise<R>;

function faultyQueue<T extends FencingToken | undefined>(
  queue: QueueWaiting<T>,
  through: Through,
): QueueWaiting<T> {
  const wrapped = new WeakMap<Ticket<T>, Ticket<T>>();
  const inner = (ticket: Ticket<T>): Ticket<T> => wrapped.get(ticket) ?? ticket;
  return {
    kind: "queue",
    touchEveryMs: queue.touchEveryMs,
    enqueue: (request, call) =>
      through("enqueue", [request], call.signal, async () => {
        const ticket = await queue.enqueue(request, call);
        const outer: Ticket<T> = {
          name: ticket.name,
          holder: ticket.holder,
          turn: (signal) => through("turn", [ticket], signal, () => ticket.turn(signal)),
          leave: (later: Call) =>
            through("leave", [ticket], later.signal, () => ticket.leave(later)),
        };
        wrapped.set(outer, ticket);
        return outer;
      }),
    touch: (tickets, call) =>
      through("touch", tickets, call.signal, () => queue.touch(tickets.map(inner), call)),
  };
}

async function suffer<R>(
  fault: Fault,
  timers: Timers,
  signal: AbortSignal,
  apply: () => Promise<R>,
): Promise<R> {
  switch (fault.kind) {
    case "refuse":
      throw new UnavailableError("the store refused to serve (injected fault)");
    case "lose-request":
      throw lost();
    case "lose-reply":
      await apply();
      throw lost();
    case "hang":
      if (fault.applied) await apply();
      return await orAborted(new Promise<never>(() => {}), signal);
    case "delay":
      return await orAborted(delayed(fault, timers, apply), signal);
    case "duplicate": {
      const answer = await apply();
      // Nobody hears the second answer, whatever it is.
      timers.after(fault.afterMs, () => void apply().catch(() => undefined));
      return answer;
    }
  }
}

async function delayed<R>(
  { requestMs = 0, replyMs = 0 }: { readonly requestMs?: number; readonly replyMs?: number },
  timers: Timers,
  apply: () => Promise<R>,
): Promise<R> {
  if (requestMs > 0) await new Promise<void>((resolve) => timers.after(requestMs, resolve));
  const answer = await apply();
  if (replyMs > 0) await new Promise<void>((resolve) => timers.after(replyMs, resolve));
  return answer;
}

/** The outcome, unless the caller stops waiting first. */
function orAborted<R>(outcome: Promise<R>, signal: AbortSignal): Promise<R> {
  return new Promise<R>((resolve, reject) => {
    const onAbort = (): void => reject(lost());
    if (signal.aborted) onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    outcome.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}

function lost(): OutcomeUnknownError {
  return new OutcomeUnknownError("the answer was lost (injected fault)");
}
