/** A store that is asked step by step, and what it answers in terms that all stores share. */
import type { Held, Renewed } from "../../../src/core/backend.js";
import { OutcomeUnknownError, UnavailableError } from "../../../src/core/errors.js";
import type { AnyBackend } from "../../../src/testing/subject.js";
import { CALL, Known, type AnyGrant } from "./known.js";
import type { SessionsAsked } from "./sessions-asked.js";
import { clientOf, type Store, type Terms } from "./store.js";
import type { Step } from "./steps.js";

/** Most grants of one renewal here. */
const SEVERAL = 3;
const TOLD_WITHIN = "the wake-up";

interface Watch extends AsyncDisposable {
  isWoken: boolean;
}

/** One store, its grants, and those who watch its names. */
export class Asked implements AsyncDisposable {
  readonly store: Store;
  readonly terms: Terms;
  readonly known: Known;
  /** Why there was no answer last. */
  failure: string | undefined;
  readonly #sessions: SessionsAsked | undefined;
  readonly #watches = new Map<string, Watch>();
  readonly #attempts = new Map<string, string>();
  #begun = 0;

  constructor(store: Store, terms: Terms, sessions?: (asked: Asked) => SessionsAsked) {
    this.store = store;
    this.terms = terms;
    this.known = new Known(terms);
    this.#sessions = sessions?.(this);
  }

  /** The answer to one step. */
  async ask(step: Step): Promise<string> {
    try {
      return await this.answer(step);
    } catch (error) {
      const isUnsure = error instanceof OutcomeUnknownError;
      if (!isUnsure && !(error instanceof UnavailableError)) throw error;
      this.failure = String(error);
      if (this.terms.certainty !== true) return "no answer";
      return isUnsure ? "outcome unknown" : "unavailable";
    }
  }

  /** Ends what it has begun. */
  async [Symbol.asyncDispose](): Promise<void> {
    for (const name of [...this.#watches.keys()]) await this.stopWatching(name);
    await this.store.close();
  }

  /** The client of a holder. */
  clientOf(holder: string): AnyBackend {
    const { clients } = this.store;
    return clients[clientOf(holder, clients.length)]!;
  }

  /** Any client. */
  client({ client }: Step): AnyBackend {
    const { clients } = this.store;
    return clients[client % clients.length]!;
  }

  /**
   * The attempt of a holder for a name: the one before, as after a lost reply, or a new one. Stores
   * rely on an attempt being for one name.
   */
  attempt(name: string, holder: string, isNew: boolean): string {
    const id = `${name} by ${holder}`;
    const known = this.#attempts.get(id);
    if (known !== undefined && !isNew) return known;
    const attempt = `${holder}x${++this.#begun}`;
    this.#attempts.set(id, attempt);
    return attempt;
  }

  async acquire(name: string, holder: string, ttlMs: number, more: object = {}): Promise<string> {
    const request = { name, holder, ttlMs, ...more };
    const client = this.clientOf(holder);
    const answer = await this.store.carry(() => client.acquire(request, CALL));
    if ("held" in answer) return `busy: ${this.known.shown(name, answer.held)}`;
    return `granted ${this.known.note(answer.grant)}`;
  }

  async renew(grants: readonly AnyGrant[], ttlMs?: number): Promise<readonly Renewed[]> {
    const client = this.clientOf(grants[0]!.holder);
    const all = grants.map((grant) => (ttlMs === undefined ? grant : { ...grant, ttlMs }));
    return this.store.carry(() => client.renew(all, CALL));
  }

  async inspect(name: string, client: AnyBackend = this.store.clients[0]!): Promise<Held | null> {
    return this.store.carry(() => client.inspect(name, CALL));
  }

  protected async answer(step: Step): Promise<string> {
    const { op, name, nth, ttlMs } = step;
    const grant = this.known.nth(nth);
    const holder = this.attempt(name, step.holder, attempts(op) && step.member % 4 === 0);
    switch (op) {
      case "acquire":
        return this.#sessions?.acquire(name, holder) ?? this.acquire(name, holder, ttlMs);
      case "renew":
        if (grant === undefined) return "nothing to renew";
        return this.#toldAll([grant], await this.renew([grant], ttlMs));
      case "renew several": {
        const several = this.#severalOf(holder);
        if (several.length === 0) return "nothing to renew";
        return this.#toldAll(several, await this.renew(several, ttlMs));
      }
      case "release":
        return grant === undefined ? "nothing to release" : this.#release([grant]);
      case "release several":
        return this.#release([...this.#severalOf(holder), { name: `${name} too`, holder }]);
      case "clean up": {
        // Half of them of an attempt that was granted, if any was.
        const last = step.member % 2 === 0 ? this.known.lastOf(name) : undefined;
        return this.#release([{ name, holder: last?.holder ?? holder }]);
      }
      case "break": {
        if (grant?.token === undefined) return "nothing to break";
        const { token } = grant;
        const client = this.client(step);
        const isBroken = await this.store.carry(() => client.break(grant.name, token, CALL));
        const told = isBroken ? await this.#toldOf(grant.name) : "";
        return isBroken ? `broken${told}` : "not broken";
      }
      case "inspect": {
        const held = await this.inspect(name, this.client(step));
        return held === null ? "free" : this.known.shown(name, held);
      }
      case "list":
        return this.#list(step);
      case "lapse":
        return this.#sessions?.lapse(step) ?? this.#lapse(name, holder);
      case "watch":
        return this.#watch(step, holder);
      case "take over":
        return this.#takeOver(step, holder);
      case "fault": {
        const strike = this.store.faults?.[step.fault!];
        if (strike === undefined) throw new Error(`${this.store.what} has no ${step.fault}`);
        if (this.#sessions === undefined) return strike(step.member);
        return this.#sessions.around(() => strike(step.member));
      }
      default: {
        const answer = await this.#sessions?.answer(step);
        if (answer === undefined) throw new Error(`nobody knows how to ${op}`);
        return answer;
      }
    }
  }

  /** The last grants of this holder's client, of one name each: a batch has no order in itself. */
  #severalOf(holder: string): readonly AnyGrant[] {
    const mine = this.known.grants.filter(
      (one) => this.clientOf(one.holder) === this.clientOf(holder),
    );
    const byName = new Map(mine.map((grant) => [grant.name, grant]));
    return [...byName.values()].slice(-SEVERAL);
  }

  #toldAll(grants: readonly AnyGrant[], outcomes: readonly Renewed[]): string {
    return grants
      .map(({ name }, i) => {
        const outcome = outcomes[i]!;
        if (typeof outcome === "string") return outcome;
        const { lost } = outcome;
        if (this.terms.isVague === true) return "lost";
        return `lost: ${lost === "absent" ? lost : this.known.shown(name, lost)}`;
      })
      .join("; ");
  }

  /** Requests of one client. */
  async #release(
    requests: readonly (AnyGrant | { readonly name: string; readonly holder: string })[],
  ): Promise<string> {
    const client = this.clientOf(requests[0]!.holder);
    const outcomes = await this.store.carry(() => client.release(requests, CALL));
    const told: string[] = [];
    for (const [i, { name }] of requests.entries()) {
      told.push(outcomes[i]! + (outcomes[i] === "released" ? await this.#toldOf(name) : ""));
    }
    return told.join("; ");
  }

  async #list(step: Step): Promise<string> {
    const client = this.client(step);
    // Sometimes the names that begin with this one alone.
    const prefix = step.member % 3 === 0 ? step.name : "";
    const told = await this.store.carry(async () => {
      const shown: string[] = [];
      for await (const { name, holder } of client.list(prefix, CALL)) {
        shown.push(`${name} of ${holder ?? "somebody"}`);
      }
      return shown;
    });
    return `listed ${told.sort().join(", ")}`;
  }

  /** Sees the present lease to its end, or else one that is taken for it. */
  async #lapse(name: string, holder: string): Promise<string> {
    const { shortTtlMs, cutsShort } = this.terms;
    const last = this.known.lastOf(name);
    let told = "nothing before";
    if (last !== undefined && cutsShort === true) {
      told = this.#toldAll([last], await this.renew([last], shortTtlMs));
    } else if (last !== undefined) told = await this.#release([last]);
    if (told !== "renewed") told += `; ${await this.acquire(name, holder, shortTtlMs)}`;
    if (/busy/.test(told)) return told;
    await this.store.until(`the end of ${name}`, async () => {
      return (await this.inspect(name)) === null && (await this.store.isOver?.(name)) !== false;
    });
    await this.stopWatching(name);
    return `${told}; lapsed`;
  }

  /** Whether anybody is told of an end that nobody brought about is the store's own affair. */
  async stopWatching(name: string): Promise<void> {
    const watch = this.#watches.get(name);
    this.#watches.delete(name);
    if (watch !== undefined) {
      await this.store.carry(() => watch[Symbol.asyncDispose]() as Promise<void>);
    }
  }

  /** A contender has seen the version that was there, or one that is there no more. */
  async #takeOver({ name, ttlMs, member }: Step, holder: string): Promise<string> {
    const held = await this.inspect(name);
    if (held === null) return "nobody to take over from";
    // A contender whose own record it is has its grant back before it could watch it for a TTL.
    if (held.holder === holder) return "its own";
    const last = this.known.lastOf(name);
    const isLate = member % 2 === 0;
    const renewed = isLate && last !== undefined ? await this.renew([last]) : [];
    const told = await this.acquire(name, holder, ttlMs, { takeOver: held.version });
    return renewed[0] === "renewed" ? `renewed meanwhile; ${told}` : told;
  }

  /** As the core does: listens, and then looks whether there is anything to wait for. */
  async #watch(step: Step, holder: string): Promise<string> {
    const { name, ttlMs } = step;
    const { waiting } = this.client(step);
    if (waiting.kind !== "notify") throw new Error(`${this.store.what} tells nobody`);
    if (this.#watches.has(name)) return "watched already";
    const watch: Watch = { isWoken: false, [Symbol.asyncDispose]: async () => undefined };
    const wake = (): void => void (watch.isWoken = true);
    const subscription = await this.store.carry(() => waiting.subscribe(name, wake, CALL));
    const stop = (): Promise<void> => subscription[Symbol.asyncDispose]() as Promise<void>;
    watch[Symbol.asyncDispose] = stop;
    const told = await (this.#sessions?.acquire(name, holder) ??
      this.acquire(name, holder, ttlMs));
    if (told.startsWith("busy")) this.#watches.set(name, watch);
    else await this.store.carry(stop);
    return told;
  }

  /** Whether the one who watches is told of a release. */
  async #toldOf(name: string): Promise<string> {
    const watch = this.#watches.get(name);
    if (watch === undefined) return "";
    await this.store.until(TOLD_WITHIN, () => watch.isWoken);
    await this.stopWatching(name);
    return ", and told";
  }
}

/** Whether a step may begin an attempt; others are about one that was made. */
function attempts(op: Step["op"]): boolean {
  return op === "acquire" || op === "lapse" || op === "watch" || op === "take over";
}
