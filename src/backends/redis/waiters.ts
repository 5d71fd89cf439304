/**
 * The waiters of this process in the lines of the store.
 *
 * Whoever ends a lease offers it to the first waiter in the same script, which tells that waiter's
 * process by a message. What no message tells is looked for: the process of the waiter at the head
 * looks when the lease before it runs out, and one that was told of an offer looks when that lapses
 * unconfirmed. Every touch settles its names too, so that a process that was frozen or killed right
 * after it had its turn holds up the others for the time of one offer.
 */
import type { AcquireRequest, Call, Grant, Ticket } from "../../core/backend.js";
import type { Timer } from "../../core/clock.js";
import { UnavailableError } from "../../core/errors.js";
import type { Runtime } from "../../core/runtime.js";
import { parseToken, type FencingToken } from "../../core/token.js";
import type { Channels, Commands, Reply } from "./client.js";
import { slotOf, type Keys } from "./keys.js";
import { grantOf, STRAGGLER_SHARE } from "./leases.js";
import type { LineScripts } from "./line-scripts.js";
import { within } from "./nodes.js";
import { elements, infoText, toToken } from "./replies.js";
import { OFFER_MS } from "./scripts.js";
import type { Epochs } from "./epochs.js";

/** Short enough that a lost notice is repeated well within the second that an offer stands. */
export const TOUCH_EVERY_MS = 500;

interface Waiter {
  readonly request: AcquireRequest;
  outcome: Grant | "gone" | undefined;
  hear: ((outcome: Grant | "gone") => void) | undefined;
}

/** A channel that is listened to, or will be. */
interface Listening {
  readonly opened: Promise<Channels>;
  readonly subscribed: Promise<void>;
}

/** What a ticket says of its waiter. */
type Standing = "waiting" | "gone" | Grant;

/** What the waiters work with. */
export interface WaiterParts {
  readonly commands: Commands;
  /** The connection that renewals and signs of life have for themselves. */
  readonly renewals: Commands;
  readonly channels: () => Promise<Channels>;
  /** Ends the connection of these channels: the next who asks for channels gets others. */
  readonly dropChannels: (channels: Channels) => void;
  readonly keys: Keys;
  readonly line: LineScripts;
  readonly epochs: Epochs;
  readonly runtime: Pick<Runtime, "clock" | "timers">;
  /** Names this process among all that wait. */
  readonly process: string;
  readonly leave: (name: string, holder: string) => Promise<unknown>;
}

/** Keeps places in the store's lines. */
export class Waiters {
  readonly #parts: WaiterParts;
  readonly #byHolder = new Map<string, Waiter>();
  readonly #byName = new Map<string, Set<string>>();
  readonly #timers = new Map<string, Timer>();
  /** Offers that were told here and not confirmed, each with the look at its end. */
  readonly #offers = new Map<string, { readonly grant: Grant; readonly timer: Timer }>();
  readonly #listening = new Map<string, Listening>();
  #closed = false;

  constructor(parts: WaiterParts) {
    this.#parts = parts;
  }

  async enqueue(request: AcquireRequest, call: Call): Promise<Ticket> {
    const { commands, keys, line, process } = this.#parts;
    const { name, holder, ttlMs } = request;
    const channel = keys.channel(process, name, commands.isCluster);
    await this.#listen(channel, call);
    // Entered before the store knows of it: the message of its turn may overtake the answer.
    const waiter = this.#byHolder.get(holder) ?? this.#enter(request);
    try {
      const args = [holder, String(ttlMs), infoText(request.holderInfo), process];
      const reply = await commands.evaluate(line.enqueue, keys.ofQueue(name), args);
      if (Array.isArray(reply)) this.#follow(name, elements(reply));
      else await this.#offered(holder, toToken(reply));
      return this.#ticket(waiter);
    } catch (error) {
      this.#forget(holder);
      throw error;
    }
  }

  /**
   * Where these waiters stand; also says that they live. On a cluster a node that does not answer
   * holds up no other: its waiters are taken to wait.
   */
  async touch(tickets: readonly Ticket[], call: Call): Promise<readonly Standing[]> {
    const byName = new Map<string, string[]>();
    for (const { name, holder } of tickets) {
      byName.set(name, [...(byName.get(name) ?? []), holder]);
    }
    const standings = new Map<string, Standing>();
    const groups = this.#bySlot([...byName.keys()]);
    const asking = groups.map((names) => this.#touchNames(names, byName, standings));
    await this.#withoutStragglers(asking, call);
    return tickets.map(({ holder }) => standings.get(holder) ?? "waiting");
  }

  /** Whether this grant is an offer that was told here; from now on it is not one any more. */
  confirm(holder: string): boolean {
    this.#offers.get(holder)?.timer.cancel();
    return this.#offers.delete(holder);
  }

  close(): void {
    this.#closed = true;
    for (const timer of this.#timers.values()) timer.cancel();
    for (const { timer } of this.#offers.values()) timer.cancel();
    this.#timers.clear();
    this.#offers.clear();
    for (const holder of [...this.#byHolder.keys()]) this.#tell(holder, "gone");
  }

  /** Rejects when all do. */
  async #withoutStragglers(asking: readonly Promise<void>[], call: Call): Promise<void> {
    const [only, ...others] = asking;
    if (others.length === 0) return only;
    let timer: Timer | undefined;
    const late = new Promise<void>((resolve) => {
      const { timers } = this.#parts.runtime;
      timer = timers.after(call.timeoutMs * STRAGGLER_SHARE, resolve);
    });
    const settled = Promise.allSettled(asking).then((outcomes) => {
      const failed = outcomes.filter((outcome) => outcome.status === "rejected");
      if (failed.length === asking.length) throw failed[0]!.reason;
    });
    settled.catch(() => undefined);
    await Promise.race([settled, late]).finally(() => timer?.cancel());
  }

  async #touchNames(
    names: readonly string[],
    holdersOf: ReadonlyMap<string, readonly string[]>,
    standings: Map<string, Standing>,
  ): Promise<void> {
    const { renewals, keys, line, process } = this.#parts;
    const holders = names.map((name) => holdersOf.get(name) ?? []);
    const args = holders.flatMap((some) => [String(some.length), ...some]);
    const all = names.flatMap((name) => keys.ofQueue(name));
    const reply = elements(await renewals.evaluate(line.touch, all, [process, ...args]));
    for (const [i, name] of names.entries()) {
      const [left, before, ...answers] = elements(reply[i]);
      for (const [j, holder] of holders[i]!.entries()) {
        standings.set(holder, await this.#standing(holder, answers[j] ?? null));
      }
      this.#follow(name, [left ?? 0, before ?? -1]);
    }
  }

  async #standing(holder: string, answer: Reply): Promise<Standing> {
    const code = String(answer);
    if (code === "0") return "waiting";
    if (code === "-1") {
      this.#tell(holder, "gone");
      return "gone";
    }
    await this.#offered(holder, toToken(answer));
    return this.#offers.get(holder)?.grant ?? "gone";
  }

  /** A message: `<token> <holder>`. */
  #heard(message: string): void {
    const space = message.indexOf(" ");
    const holder = message.slice(space + 1);
    if (!this.#byHolder.has(holder) || this.#closed) return;
    void this.#offered(holder, parseToken(message.slice(0, space)));
  }

  async #offered(holder: string, token: FencingToken): Promise<void> {
    const waiter = this.#byHolder.get(holder);
    if (waiter === undefined || waiter.outcome !== undefined) return;
    const { keys, epochs } = this.#parts;
    const { request } = waiter;
    const epoch = epochs.of(keys.lease(request.name));
    // Settled in this turn where it can be: the offer stands for a second only.
    const told = typeof epoch === "object" ? await epoch : epoch;
    if (waiter.outcome !== undefined) return;
    const grant = grantOf(request, token, told);
    if (!this.#closed) {
      this.#offers.set(holder, { grant, timer: this.#lookAfter(request.name, OFFER_MS, holder) });
    }
    this.#tell(holder, grant);
  }

  #enter(request: AcquireRequest): Waiter {
    const { name, holder } = request;
    const waiter: Waiter = { request, outcome: undefined, hear: undefined };
    this.#byHolder.set(holder, waiter);
    const siblings = this.#byName.get(name) ?? new Set();
    this.#byName.set(name, siblings.add(holder));
    return waiter;
  }

  #forget(holder: string): Waiter | undefined {
    const waiter = this.#byHolder.get(holder);
    if (waiter === undefined) return undefined;
    const { name } = waiter.request;
    this.#byHolder.delete(holder);
    const siblings = this.#byName.get(name);
    siblings?.delete(holder);
    if (siblings !== undefined && siblings.size === 0) {
      this.#byName.delete(name);
      this.#timers.get(name)?.cancel();
      this.#timers.delete(name);
      this.#stopListening(name);
    }
    return waiter;
  }

  #tell(holder: string, outcome: Grant | "gone"): void {
    const waiter = this.#forget(holder);
    if (waiter === undefined) return;
    waiter.outcome = outcome;
    waiter.hear?.(outcome);
  }

  #ticket(waiter: Waiter): Ticket {
    const { name, holder } = waiter.request;
    return {
      name,
      holder,
      turn: (signal) =>
        new Promise((resolve, reject) => {
          signal.throwIfAborted();
          if (waiter.outcome !== undefined) {
            resolve(waiter.outcome);
            return;
          }
          const onAbort = (): void => {
            waiter.hear = undefined;
            reject(signal.reason);
          };
          waiter.hear = (outcome) => {
            signal.removeEventListener("abort", onAbort);
            resolve(outcome);
          };
          signal.addEventListener("abort", onAbort, { once: true });
        }),
      leave: async () => {
        this.#forget(holder);
        this.confirm(holder);
        await this.#parts.leave(name, holder);
      },
    };
  }

  /** The head of a line looks when the lease before it runs out; the others leave it to them. */
  #follow(name: string, [left, before]: readonly Reply[]): void {
    this.#timers.get(name)?.cancel();
    this.#timers.delete(name);
    if (Number(before) !== 0 || this.#closed || !this.#byName.has(name)) return;
    this.#timers.set(name, this.#lookAfter(name, Number(left) / 1_000));
  }

  /** Looks at a name, perhaps for the sake of one offer, a moment after `delayMs`. */
  #lookAfter(name: string, delayMs: number, offer?: string): Timer {
    const look = (): void => {
      if (offer === undefined) this.#timers.delete(name);
      else this.#offers.delete(offer);
      const holders = [...(this.#byName.get(name) ?? [])];
      if (holders.length === 0 && offer === undefined) return;
      // What cannot be seen now is seen by the next touch.
      this.#touchNames([name], new Map([[name, holders]]), new Map()).catch(() => undefined);
    };
    return this.#parts.runtime.timers.after(Math.ceil(delayMs) + 1, look, { ref: false });
  }

  /**
   * A connection that brought nothing for long may be dead, with nobody told: waiters would stand
   * before it until the system gives it up, a quarter of an hour later. So the next waiter gets
   * another one. On a cluster it is perhaps one node that does not answer: its waiters find their
   * turns by their touches, and others go on to be told.
   *
   * Opening it does not count: over a slow link that takes several round trips, and each waiter
   * would begin anew. And of two waiters before a dead one the second finds it replaced already: it
   * gives up what it has seen, and not the connection in its place.
   */
  async #listen(channel: string, call: Call): Promise<void> {
    const { commands, dropChannels, runtime } = this.#parts;
    const listening = this.#subscribed(channel);
    const channels = await listening.opened;
    const subscribed = listening.subscribed.then(() => "subscribed" as const);
    const limitMs = call.timeoutMs * STRAGGLER_SHARE;
    if ((await within(runtime.timers, limitMs, subscribed)) !== undefined) return;
    if (commands.isCluster) return;
    if (this.#listening.get(channel) === listening) this.#listening.delete(channel);
    dropChannels(channels);
    const text = "the connection for messages of Redis did not answer, and was given up";
    throw new UnavailableError(text, { backend: "redis" });
  }

  #subscribed(channel: string): Listening {
    const known = this.#listening.get(channel);
    if (known !== undefined) return known;
    const opened = this.#parts.channels();
    const subscribed = opened.then((channels) => channels.subscribe(channel, this.#hear));
    const listening: Listening = { opened, subscribed };
    this.#listening.set(channel, listening);
    subscribed.catch(() => {
      if (this.#listening.get(channel) === listening) this.#listening.delete(channel);
    });
    return listening;
  }

  /** On a cluster each name has a channel of its own. */
  #stopListening(name: string): void {
    const { commands, keys, process, channels } = this.#parts;
    if (!commands.isCluster) return;
    const channel = keys.channel(process, name, true);
    if (!this.#listening.delete(channel)) return;
    channels()
      .then((open) => open.unsubscribe(channel, this.#hear))
      .catch(() => undefined);
  }

  readonly #hear = (message: string): void => this.#heard(message);

  #bySlot(names: readonly string[]): readonly (readonly string[])[] {
    const { commands, keys } = this.#parts;
    if (!commands.isCluster) return names.length === 0 ? [] : [names];
    const groups = new Map<number, string[]>();
    for (const name of names) {
      const slot = slotOf(keys.lease(name));
      groups.set(slot, [...(groups.get(slot) ?? []), name]);
    }
    return [...groups.values()];
  }
}
