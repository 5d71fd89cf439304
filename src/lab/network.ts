/**
 * The network between simulated processes: every message takes time, and may be lost, doubled, or
 * stopped by a cut in its direction. Messages of one direction arrive in order, as on one
 * connection, unless a fault holds one back.
 */
import { OutcomeUnknownError, UnavailableError } from "../core/errors.js";
import type { SimulatedProcess } from "./process.js";
import type { World } from "./world.js";

/** What happens to one message. */
export interface MessageFault {
  readonly drop?: boolean;
  /** Held back for this long beyond its usual delay, milliseconds; later ones may overtake it. */
  readonly holdMs?: number;
  /** Arrives once more, this long after its first arrival, milliseconds. */
  readonly againAfterMs?: number;
  /** Lost with its connection: whoever waits for an answer is told, and not what came of it. */
  readonly breaks?: boolean;
}

/** One message as it is sent. */
export interface Message {
  readonly from: string;
  readonly to: string;
  /** What it is about: `acquire`, `acquire reply`, … */
  readonly what: string;
  /** Counts the messages of this `what` from this sender, from 1. */
  readonly nth: number;
}

/** Messages that are alike in what is given. */
export type MessageLike = Partial<Omit<Message, "nth">>;

/** What happens to one, decided as it is sent; undefined is nothing unusual. */
type Strike = MessageFault | ((message: Message) => MessageFault | undefined);

interface Rule {
  readonly like: MessageLike;
  readonly strike: Strike;
  readonly isOnce: boolean;
}

/** How the network behaves when no fault is planned. */
export interface NetworkOptions {
  /** Delay of a message, milliseconds. Default 1 to 5. */
  readonly minMs?: number;
  readonly maxMs?: number;
  /** Probability of loss. Default 0. */
  readonly loss?: number;
  /** Probability that a message arrives twice. Default 0. */
  readonly duplicate?: number;
}

/** The network of one world. */
export class Network {
  /** Decides for each message; undefined leaves it to chance. May be changed at any time. */
  plan: (message: Message) => MessageFault | undefined = () => undefined;
  readonly #world: World;
  #options: Required<NetworkOptions>;
  readonly #cuts = new Set<string>();
  readonly #rules: Rule[] = [];
  readonly #counts = new Map<string, number>();
  readonly #lastMs = new Map<string, number>();
  readonly #draws;

  constructor(world: World, options: NetworkOptions = {}) {
    this.#world = world;
    this.#options = { minMs: 1, maxMs: 5, loss: 0, duplicate: 0, ...options };
    this.#draws = world.draws.fork("network");
  }

  /** From here on it loses and doubles more, or less. */
  disturb(options: NetworkOptions): void {
    this.#options = { ...this.#options, ...options };
  }

  /** Strikes the next message like this, before `plan` is asked. */
  once(like: MessageLike, strike: Strike): void {
    this.#rules.push({ like, strike, isOnce: true });
  }

  /** Strikes all messages like this from now on. */
  always(like: MessageLike, strike: Strike): void {
    this.#rules.push({ like, strike, isOnce: false });
  }

  /** Cuts one direction: what is sent from now on is lost, without a word. */
  cut(from: string, to: string): void {
    if (this.#cuts.has(way(from, to))) return;
    if (!this.#world.strikes(`${from} is cut off towards ${to}`)) return;
    this.#cuts.add(way(from, to));
    this.#world.history.add({ kind: "fault", what: "cut", target: `${from}→${to}` });
  }

  /** Both directions. */
  isolate(a: string, b: string): void {
    this.cut(a, b);
    this.cut(b, a);
  }

  heal(from: string, to: string): void {
    if (!this.#cuts.delete(way(from, to))) return;
    this.#world.history.add({ kind: "fault", what: "heal", target: `${from}→${to}` });
  }

  /** Nothing planned happens to messages any more, and chance leaves them alone. */
  calm(): void {
    this.healAll();
    this.#rules.length = 0;
    this.plan = () => undefined;
    this.disturb({ loss: 0, duplicate: 0 });
  }

  /** Ends all cuts. */
  healAll(): void {
    for (const cut of [...this.#cuts]) {
      const [from, to] = cut.split("→");
      this.heal(from!, to!);
    }
  }

  /**
   * A message: `arrive` runs in the process it is sent to, `broke` in nobody's, when it was lost
   * with its connection.
   */
  send(
    from: SimulatedProcess,
    to: SimulatedProcess,
    what: string,
    arrive: () => void,
    broke: () => void = () => undefined,
  ): void {
    const fault = this.#faultOf(from.name, to.name, what);
    const sentMs = this.#world.nowMs;
    const about = { kind: "message", from: from.name, to: to.name, what, sentMs } as const;
    if (fault.drop === true || fault.breaks === true) {
      this.#world.history.add({ ...about, fate: "lost" });
      if (fault.breaks === true) this.#world.after(this.#options.maxMs, broke);
      return;
    }
    const { minMs, maxMs } = this.#options;
    const direction = way(from.name, to.name);
    let atMs = sentMs + this.#draws.between(minMs, maxMs);
    if (fault.holdMs === undefined) {
      atMs = Math.max(atMs, this.#lastMs.get(direction) ?? 0);
      this.#lastMs.set(direction, atMs);
    } else {
      atMs += fault.holdMs;
    }
    const deliver = (): void =>
      to.receive(() => {
        this.#world.history.add({ ...about, fate: "arrived" });
        arrive();
      });
    this.#world.at(atMs, deliver);
    if (fault.againAfterMs !== undefined) this.#world.at(atMs + fault.againAfterMs, deliver);
  }

  /**
   * A question, and its answer. It rejects when the other side is dead. Where a message is lost it
   * never settles, unless the asking process gives up after `patienceMs`: outcome unknown.
   */
  ask<R>(
    from: SimulatedProcess,
    to: SimulatedProcess,
    what: string,
    answer: () => R | Promise<R>,
    patienceMs?: number,
  ): Promise<R> {
    return new Promise((resolve, reject) => {
      if (patienceMs !== undefined) {
        const text = `${to.name} did not answer within ${patienceMs} ms`;
        const late = (): void => reject(new OutcomeUnknownError(text));
        const timer = from.runtime.timers.after(patienceMs, () => late());
        const settled = (): void => timer.cancel();
        const [resolved, rejected] = [resolve, reject];
        resolve = (value) => (settled(), resolved(value));
        reject = (error) => (settled(), rejected(error));
      }
      const broken = (): Error => new OutcomeUnknownError(`the connection to ${to.name} broke`);
      const broke = (): void => from.receive(() => reject(broken()));
      const reply = (settle: () => void): void =>
        this.send(to, from, `${what} reply`, settle, broke);
      if (!to.isAlive) {
        // The machine is there and refuses the connection: it certainly did not happen.
        const refused = (): void =>
          reject(new UnavailableError(`${to.name} refused the connection`));
        this.#world.after(this.#options.maxMs, () => from.receive(refused));
        return;
      }
      const arrive = (): void => {
        let given: R | Promise<R>;
        try {
          given = answer();
        } catch (error) {
          reply(() => reject(error));
          return;
        }
        if (given instanceof Promise) {
          given.then(
            (value) => reply(() => resolve(value)),
            (error: unknown) => reply(() => reject(error)),
          );
        } else {
          const value = given;
          reply(() => resolve(value));
        }
      };
      this.send(from, to, what, arrive, broke);
    });
  }

  #faultOf(from: string, to: string, what: string): MessageFault {
    const key = `${from} ${what}`;
    const nth = (this.#counts.get(key) ?? 0) + 1;
    this.#counts.set(key, nth);
    const message = { from, to, what, nth };
    const planned = this.#struck(message) ?? this.plan(message);
    if (this.#cuts.has(way(from, to))) return { drop: true };
    if (planned !== undefined && this.#world.strikes(told(message, planned))) return planned;
    const { loss, duplicate } = this.#options;
    if (loss > 0 && this.#draws.chance(loss)) return { drop: true };
    if (duplicate > 0 && this.#draws.chance(duplicate)) {
      return { againAfterMs: this.#draws.between(1, 2_000) };
    }
    return {};
  }

  #struck(message: Message): MessageFault | undefined {
    if (this.#rules.length === 0) return undefined;
    for (const rule of [...this.#rules]) {
      const { like, strike, isOnce } = rule;
      const isLike = (name: keyof MessageLike): boolean =>
        like[name] === undefined || like[name] === message[name];
      if (!isLike("from") || !isLike("to") || !isLike("what")) continue;
      if (isOnce) this.#rules.splice(this.#rules.indexOf(rule), 1);
      const fault = typeof strike === "function" ? strike(message) : strike;
      if (fault !== undefined) return fault;
    }
    return undefined;
  }
}

/** What becomes of a message, in words. */
function told({ from, to, what }: Message, fault: MessageFault): string {
  const about = `a message ${from} → ${to} (${what})`;
  if (fault.breaks === true) return `${about} is lost with its connection`;
  if (fault.drop === true) return `${about} is lost`;
  if (fault.holdMs !== undefined) return `${about} is held up for ${Math.round(fault.holdMs)} ms`;
  return `${about} comes twice`;
}

function way(from: string, to: string): string {
  return `${from}→${to}`;
}
