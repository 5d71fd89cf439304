/** What is asked of a store with a line of waiters. */
import type { Held, QueueWaiting, Ticket } from "../../../src/core/backend.js";
import type { AnyBackend } from "../../../src/testing/subject.js";
import { CALL, Known, type AnyGrant } from "./known.js";
import { clientOf, type Store, type Terms } from "./store.js";
import type { Step } from "./steps.js";

/** Of a lease that is confirmed. */
const LASTING_MS = 600_000;

interface Waiter {
  readonly ticket: Ticket<AnyGrant["token"]>;
  readonly client: number;
  /** What it was told by itself, without touching. */
  turn: AnyGrant | "gone" | undefined;
  readonly stop: AbortController;
}

type Offered = readonly [id: string, waiter: Waiter, offer: AnyGrant];

/**
 * One store, those who stand in its lines, and those who hold. After each step it is told where
 * everybody stands. No offer is left open at the end of a step: it would end on a slow machine.
 */
export class LineAsked implements AsyncDisposable {
  readonly store: Store;
  readonly known: Known;
  readonly #waiters = new Map<string, Waiter>();
  #attempts = 0;

  constructor(store: Store, terms: Terms) {
    this.store = store;
    this.known = new Known(terms);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const id of [...this.#waiters.keys()]) this.#forget(id);
    await this.store.close();
  }

  async ask(step: Step): Promise<string> {
    const told = [await this.#answer(step)];
    // Whoever has its turn takes it, or leaves: then the next one has it.
    for (let nth = 0; ; nth++) {
      const [shown, offers] = await this.#look();
      told.push(shown);
      const [first] = offers;
      if (first === undefined) return told.filter((text) => text !== "").join("; ");
      const leaves = (step.member >> nth) % 4 === 0;
      told.push(await (leaves ? this.#leave(first[0]) : this.#confirm(first)));
    }
  }

  async #answer(step: Step): Promise<string> {
    const { op, name, holder, nth, ttlMs } = step;
    const id = `${name} ${holder}`;
    const grant = this.known.nth(nth);
    switch (op) {
      case "wait":
        return this.#enter(name, holder);
      case "leave":
        return this.#waiters.has(id) ? this.#leave(id) : "did not wait";
      case "clean up": {
        const attempt = this.#waiters.get(id)?.ticket.holder ?? this.#attempt(holder);
        this.#forget(id);
        return this.#release(holder, [{ name, holder: attempt }]);
      }
      case "acquire": {
        if (this.#waiters.has(id)) return "waits";
        const request = { name, holder: this.#attempt(holder), ttlMs: LASTING_MS };
        const client = this.#clientOf(holder);
        const answer = await this.store.carry(() => client.acquire(request, CALL));
        if ("held" in answer) return `busy: ${this.#shown(name, answer.held)}`;
        return `granted ${this.known.note(answer.grant)}`;
      }
      case "renew": {
        if (grant === undefined) return "nothing to renew";
        const client = this.#clientOf(grant.holder);
        const all = [{ ...grant, ttlMs }];
        const [outcome] = await this.store.carry(() => client.renew(all, CALL));
        if (typeof outcome === "string") return outcome;
        const { lost } = outcome!;
        return `lost: ${lost === "absent" ? lost : this.#shown(grant.name, lost)}`;
      }
      case "release":
        return grant === undefined ? "nothing" : this.#release(grant.holder, [grant]);
      case "inspect": {
        const client = this.store.clients[step.client % this.store.clients.length]!;
        const held = await this.store.carry(() => client.inspect(name, CALL));
        return held === null ? "free" : this.known.shown(name, held);
      }
      case "miss the turn":
        return this.#miss(step);
      case "fall silent":
        return this.#fallSilent(step);
      default:
        throw new Error(`nobody knows how to ${op} in a line`);
    }
  }

  async #enter(name: string, holder: string): Promise<string> {
    const id = `${name} ${holder}`;
    const known = this.#waiters.get(id)?.ticket.holder;
    const request = { name, holder: known ?? this.#attempt(holder), ttlMs: LASTING_MS };
    const client = clientOf(holder, this.store.clients.length);
    const queue = queueOf(this.store.clients[client]!);
    const ticket = await this.store.carry(() => queue.enqueue(request, CALL));
    if (known !== undefined) return "waits as before";
    const stop = new AbortController();
    const waiter: Waiter = { ticket, client, turn: undefined, stop };
    this.#waiters.set(id, waiter);
    ticket.turn(stop.signal).then(
      (turn) => void (waiter.turn = turn),
      (error: unknown) => {
        if (!stop.signal.aborted) throw error;
      },
    );
    return "waits";
  }

  /** Where all stand, and who has an offer. */
  async #look(): Promise<readonly [string, readonly Offered[]]> {
    const told: string[] = [];
    const offers: Offered[] = [];
    const all = [...this.#waiters].sort(([a], [b]) => (a < b ? -1 : 1));
    for (const [place, client] of this.store.clients.entries()) {
      const mine = all.filter(([, waiter]) => waiter.client === place);
      if (mine.length === 0) continue;
      const tickets = mine.map(([, { ticket }]) => ticket);
      const outcomes = await this.store.carry(() => queueOf(client).touch(tickets, CALL));
      for (const [i, [id, waiter]] of mine.entries()) {
        const outcome = outcomes[i]!;
        told.push(`${id} ${typeof outcome === "string" ? outcome : "has its turn"}`);
        if (outcome === "gone") this.#forget(id);
        else if (outcome !== "waiting") offers.push([id, waiter, outcome]);
      }
    }
    return [told.sort().join(", "), offers];
  }

  /** Takes the turn, of which the waiter has heard by itself. */
  async #confirm([id, waiter, offer]: Offered): Promise<string> {
    await this.store.until(`${id} to hear of its turn`, () => waiter.turn !== undefined);
    const { turn } = waiter;
    const isSame = typeof turn === "object" && turn.token === offer.token;
    const client = this.store.clients[waiter.client]!;
    const grants = [{ ...offer, ttlMs: LASTING_MS }];
    const [outcome] = await this.store.carry(() => client.renew(grants, CALL));
    this.#forget(id);
    const told = outcome === "renewed" ? `takes it: ${this.known.note(offer)}` : "comes too late";
    return `${id} was told ${isSame ? "the same" : "otherwise"}, ${told}`;
  }

  async #leave(id: string): Promise<string> {
    const { ticket } = this.#waiters.get(id)!;
    this.#forget(id);
    await this.store.carry(() => ticket.leave(CALL));
    return `${id} left`;
  }

  /** The holder goes, whoever has its turn does not come, and the next one has it. */
  async #miss({ name }: Step): Promise<string> {
    const line = [...this.#waiters].filter(([, { ticket }]) => ticket.name === name);
    const last = this.known.lastOf(name);
    // Of a line of one client nobody would see that its first one does not come.
    const clients = new Set(line.map(([, { client }]) => client));
    if (last === undefined || clients.size < 2) return "nobody to miss it";
    const released = await this.#release(last.holder, [last]);
    if (released !== "released") return released;
    const [, offers] = await this.#look();
    const missed = offers.find(([, { ticket }]) => ticket.name === name);
    if (missed === undefined) return "nobody has the turn";
    await this.store.until(`${missed[0]} to be passed over`, async () => {
      await this.#look();
      return !this.#waiters.has(missed[0]);
    });
    return `${missed[0]} missed its turn`;
  }

  /** A process dies, and all of its waiters with it; another takes its place. */
  async #fallSilent({ client }: Step): Promise<string> {
    const place = client % this.store.clients.length;
    const dead = [...this.#waiters].filter(([, waiter]) => waiter.client === place);
    for (const [id] of dead) this.#forget(id);
    await this.store.replace!(place, () => this.#look());
    return `${dead.length} fell silent`;
  }

  async #release(
    holder: string,
    requests: readonly (AnyGrant | { readonly name: string; readonly holder: string })[],
  ): Promise<string> {
    const client = this.#clientOf(holder);
    return String(await this.store.carry(() => client.release(requests, CALL)));
  }

  /** How many wait need be told only to those who look. */
  #shown(name: string, { waiters: _, ...held }: Held): string {
    return this.known.shown(name, held);
  }

  /** A holder is new for each attempt, and the store may rely on it. */
  #attempt(holder: string): string {
    return `${holder}x${++this.#attempts}`;
  }

  #forget(id: string): void {
    this.#waiters.get(id)?.stop.abort();
    this.#waiters.delete(id);
  }

  #clientOf(holder: string): AnyBackend {
    return this.store.clients[clientOf(holder, this.store.clients.length)]!;
  }
}

function queueOf({ waiting }: AnyBackend): QueueWaiting<AnyGrant["token"]> {
  if (waiting.kind !== "queue") throw new Error("there is no line");
  return waiting;
}
