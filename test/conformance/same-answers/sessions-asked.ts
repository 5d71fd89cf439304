/** What is asked of a store whose records live as long as a session. */
import type { Sessions } from "../../../src/core/backend.js";
import { TenureError } from "../../../src/core/errors.js";
import type { AnyBackend } from "../../../src/testing/subject.js";
import type { Asked } from "./asked.js";
import { CALL } from "./known.js";
import { clientOf } from "./store.js";
import type { Step } from "./steps.js";

/** Of a session that is to last; a store with sessions takes the TTL of a lease from there. */
const LASTING_MS = 600_000;

/** Each client has one session for all its leases, as the core does. */
export class SessionsAsked {
  readonly #asked: Asked;
  /** By number of the client. */
  readonly #sessions = new Map<number, string>();
  readonly #epochs = new Set<string | undefined>();

  constructor(asked: Asked) {
    this.#asked = asked;
  }

  async acquire(name: string, holder: string): Promise<string> {
    const session = await this.#session(holder);
    return this.#asked.acquire(name, holder, LASTING_MS, { session });
  }

  /** Two leases under a session that nobody keeps: both end with it. */
  async lapse({ name, holder }: Step): Promise<string> {
    const { store, terms } = this.#asked;
    const session = await this.#open(holder, terms.shortTtlMs);
    const told: string[] = [];
    const granted: string[] = [];
    for (const each of [name, `${name} too`]) {
      const own = this.#asked.attempt(each, `${holder}briefly`, true);
      const answer = await this.#asked.acquire(each, own, terms.shortTtlMs, { session });
      if (answer.startsWith("granted")) granted.push(each);
      told.push(answer);
    }
    for (const each of granted) {
      const isFree = async (): Promise<boolean> => (await this.#asked.inspect(each)) === null;
      await store.until(`the end of ${each}`, isFree);
    }
    if (granted.length === 0) await this.#close(holder, session);
    const kept = await this.#keep(holder, session);
    return [...told, granted.length === 0 ? "closed" : "lapsed", `session ${kept}`].join("; ");
  }

  async answer(step: Step): Promise<string | undefined> {
    const { op, name, holder, ttlMs } = step;
    switch (op) {
      case "keep session":
        return this.#keep(holder, await this.#session(holder));
      case "close session": {
        const session = await this.#session(holder);
        this.#sessions.delete(this.#placeOf(holder));
        await this.#close(holder, session);
        return `closed; ${await this.#keep(holder, session)}`;
      }
      case "change session":
        return this.#change(step);
      case "acquire too late": {
        if ((await this.#asked.inspect(name)) !== null) return "it is not free";
        const session = await this.#open(holder, LASTING_MS);
        await this.#close(holder, session);
        const attempt = this.#asked.attempt(name, holder, true);
        return this.#asked.acquire(name, attempt, ttlMs, { session });
      }
      default:
        return undefined;
    }
  }

  /**
   * What is done to the store, and what has become of sessions and of its incarnation. A client
   * that is asked here has found its way to another server, and can tell it of a session's end.
   */
  async around(strike: () => Promise<string>): Promise<string> {
    const { newEpochs } = this.#asked.terms;
    // What it was before is not told: a cluster on a slow machine elects by itself, too.
    if (newEpochs === true) await this.#epoch();
    const told = [await strike()];
    await this.#reconnect();
    for (const [place, session] of [...this.#sessions].sort(([a], [b]) => a - b)) {
      told.push(`session ${await this.#keep(`h${place}`, session)}`);
    }
    if (newEpochs === true) told.push(await this.#epoch());
    return told.join("; ");
  }

  /** What was on its way as a server died is lost: waits until each client has an answer again. */
  async #reconnect(): Promise<void> {
    const { store } = this.#asked;
    const answers = async (ask: () => Promise<unknown>): Promise<boolean> => {
      try {
        await ask();
        return true;
      } catch (error) {
        if (error instanceof TenureError) return false;
        throw error;
      }
    };
    for (const client of store.clients) {
      await store.until("a client to find a server", () =>
        answers(() => this.#asked.inspect("anything", client)),
      );
    }
    for (const [place, session] of this.#sessions) {
      await store.until("a session to find a server", () =>
        answers(() => this.#keep(`h${place}`, session)),
      );
    }
  }

  /** Whether the store says that it is another one than ever before. */
  async #epoch(): Promise<string> {
    const { store } = this.#asked;
    const client = store.clients[0]!;
    const session = await this.#session("h0");
    const holder = this.#asked.attempt("epoch", "h0", true);
    const request = { name: "epoch", holder, ttlMs: LASTING_MS, session };
    const answer = await store.carry(() => client.acquire(request, CALL));
    if (!("grant" in answer)) throw new Error("somebody has the name that shows the epoch");
    await store.carry(() => client.release([answer.grant], CALL));
    const isKnown = this.#epochs.has(answer.grant.storeEpoch);
    this.#epochs.add(answer.grant.storeEpoch);
    return isKnown ? "an epoch seen before" : "a new epoch";
  }

  /** The attempt of a holder goes on under another session, and its first one ends. */
  async #change({ name }: Step): Promise<string> {
    const last = this.#asked.known.lastOf(name);
    if (last === undefined) return "nobody had it";
    const { holder } = last;
    const before = await this.#session(holder);
    const session = await this.#open(holder, LASTING_MS);
    const told = await this.#asked.acquire(name, holder, LASTING_MS, { session });
    this.#sessions.set(this.#placeOf(holder), session);
    await this.#close(holder, before);
    const held = await this.#asked.inspect(name);
    return `${told}; then ${held === null ? "free" : this.#asked.known.shown(name, held)}`;
  }

  async #session(holder: string): Promise<string> {
    const place = this.#placeOf(holder);
    const known = this.#sessions.get(place);
    if (known !== undefined) return known;
    const session = await this.#open(holder, LASTING_MS);
    this.#sessions.set(place, session);
    return session;
  }

  async #open(holder: string, ttlMs: number): Promise<string> {
    const sessions = this.#of(holder);
    return (await this.#asked.store.carry(() => sessions.open(ttlMs, CALL))).id;
  }

  async #keep(holder: string, session: string): Promise<string> {
    return this.#asked.store.carry(() => this.#of(holder).keepAlive(session, CALL));
  }

  async #close(holder: string, session: string): Promise<void> {
    await this.#asked.store.carry(() => this.#of(holder).close(session, CALL));
  }

  #of(holder: string): Sessions {
    const client: AnyBackend = this.#asked.clientOf(holder);
    if (client.sessions === undefined) throw new Error(`${this.#asked.store.what}: no sessions`);
    return client.sessions;
  }

  #placeOf(holder: string): number {
    return clientOf(holder, this.#asked.store.clients.length);
  }
}
