import type {
  AcquireRequest,
  Call,
  Grant,
  Held,
  HolderInfo,
  QueueWaiting,
  Released,
  ReleaseRequest,
  Renewed,
  Ticket,
} from "../core/backend.js";
import type { FencingToken } from "../core/token.js";
import { must } from "./broken-promise.js";
import type { AnyBackend, SubjectTime } from "./subject.js";

type AnyGrant = Grant<FencingToken | undefined>;
type AnyTicket = Ticket<FencingToken | undefined>;
type AnyRelease = ReleaseRequest<FencingToken | undefined>;

/** What a case may say of an attempt; the rest has defaults. */
export interface Wish {
  /** Default: a fresh id. */
  readonly holder?: string;
  /** Default: long enough not to end during a case. */
  readonly ttlMs?: number;
  readonly holderInfo?: HolderInfo;
  readonly takeOver?: string;
}

/** A waiter of a case: its place, and its turn being awaited. */
export interface Waiting {
  readonly ticket: AnyTicket;
  readonly turn: Promise<AnyGrant | "gone">;
  /** Says that the waiter lives. */
  touch(): Promise<"waiting" | "gone" | AnyGrant>;
  /** Whether the turn has come. */
  heard(): boolean;
}

const LONG_MS = 60_000;
const CALL_MS = 10_000;
const LOCK_DELAY_LOOKS = 30;

/** One client of the store under test: a backend, called as the core would call it. */
export class Client {
  readonly backend: AnyBackend;
  readonly #time: SubjectTime;
  readonly #newHolder: () => string;
  readonly #sessions = new Map<string, string>();
  readonly #holders = new Map<string, string[]>();

  constructor(backend: AnyBackend, time: SubjectTime, newHolder: () => string) {
    this.backend = backend;
    this.#time = time;
    this.#newHolder = newHolder;
  }

  call(): Call {
    return { signal: new AbortController().signal, timeoutMs: CALL_MS };
  }

  async acquire(name: string, wish: Wish = {}): Promise<{ grant: AnyGrant } | { held: Held }> {
    return await this.backend.acquire(await this.#request(name, wish), this.call());
  }

  /** Acquires a name that is free. */
  async take(name: string, wish: Wish = {}): Promise<AnyGrant> {
    const answer = await this.acquire(name, wish);
    if ("grant" in answer) return answer.grant;
    must(false, "acquire", `a free name was refused: ${describe(answer.held)}`);
  }

  /** Tries a name that somebody holds. */
  async refused(name: string, wish: Wish = {}): Promise<Held> {
    const answer = await this.acquire(name, wish);
    if ("held" in answer) return answer.held;
    must(false, "acquire", `a second holder was granted a held name, token ${answer.grant.token}`);
  }

  /** Acquires a name whose lease has expired, in the way of the store's expiry clock. */
  async takeExpired(name: string, wish: Wish = {}): Promise<AnyGrant> {
    let answer = await this.acquire(name, wish);
    for (let looks = 0; "held" in answer && looks < LOCK_DELAY_LOOKS; looks++) {
      const { held } = answer;
      if (held.why === "lock-delay") {
        await this.#time.advance(Math.max(held.leftMs ?? 0, 1_000));
        answer = await this.acquire(name, wish);
      } else if (this.backend.manifest.expiryClock === "observed") {
        must(held.version !== undefined, 'expiryClock "observed"', "a refusal had no version");
        must(held.ttlMs !== undefined, 'expiryClock "observed"', "a refusal had no ttlMs");
        await this.#time.advance(held.ttlMs);
        answer = await this.acquire(name, { ...wish, takeOver: held.version });
      } else break;
    }
    if ("grant" in answer) return answer.grant;
    must(false, "acquire", `an expired lease was not given on: ${describe(answer.held)}`);
  }

  async renew(...grants: readonly AnyGrant[]): Promise<readonly Renewed[]> {
    for (const session of new Set(grants.map((grant) => grant.session))) {
      if (session !== undefined) await this.backend.sessions?.keepAlive(session, this.call());
    }
    const outcomes = await this.backend.renew(grants, this.call());
    const seen = `${outcomes.length} outcomes for ${grants.length} grants`;
    must(outcomes.length === grants.length, "renew", seen);
    return outcomes;
  }

  async release(...requests: readonly AnyRelease[]): Promise<readonly Released[]> {
    const outcomes = await this.backend.release(requests, this.call());
    const seen = `${outcomes.length} outcomes for ${requests.length} requests`;
    must(outcomes.length === requests.length, "release", seen);
    return outcomes;
  }

  /** Releases a lease that is held. */
  async free(grant: AnyGrant): Promise<void> {
    const [outcome] = await this.release(grant);
    must(outcome === "released", "release", `a held lease answered ${outcome}`);
  }

  async inspect(name: string): Promise<Held | null> {
    return await this.backend.inspect(name, this.call());
  }

  async names(prefix: string): Promise<readonly string[]> {
    const names: string[] = [];
    for await (const { name } of this.backend.list(prefix, this.call())) names.push(name);
    return names;
  }

  get queue(): QueueWaiting<FencingToken | undefined> {
    const { waiting } = this.backend;
    must(waiting.kind === "queue", 'waiting "queue"', `the backend's waiting is "${waiting.kind}"`);
    return waiting;
  }

  async enqueue(name: string, wish: Wish = {}): Promise<AnyTicket> {
    return await this.queue.enqueue(await this.#request(name, wish), this.call());
  }

  /** Takes a place and awaits the turn. */
  async wait(name: string, wish: Wish = {}): Promise<Waiting> {
    const ticket = await this.enqueue(name, wish);
    let heard = false;
    const turn = ticket.turn(new AbortController().signal);
    const note = (): void => void (heard = true);
    turn.then(note, note);
    return { ticket, turn, touch: async () => (await this.touch(ticket))[0]!, heard: () => heard };
  }

  async touch(
    ...tickets: readonly AnyTicket[]
  ): Promise<readonly ("waiting" | "gone" | AnyGrant)[]> {
    const outcomes = await this.queue.touch(tickets, this.call());
    const seen = `${outcomes.length} outcomes for ${tickets.length} tickets`;
    must(outcomes.length === tickets.length, "touch", seen);
    return outcomes;
  }

  async #request(name: string, wish: Wish): Promise<AcquireRequest> {
    const ttlMs = wish.ttlMs ?? Math.min(LONG_MS, this.backend.manifest.maxTtlMs);
    const holder = wish.holder ?? this.#newHolder();
    const session = await this.#sessionFor(name, holder, ttlMs);
    return {
      name,
      holder,
      ttlMs,
      ...(wish.holderInfo === undefined ? {} : { holderInfo: wish.holderInfo }),
      ...(wish.takeOver === undefined ? {} : { takeOver: wish.takeOver }),
      ...(session === undefined ? {} : { session }),
    };
  }

  /** Some stores give a session its own lock again, so no two holders of a name share one. */
  async #sessionFor(name: string, holder: string, ttlMs: number): Promise<string | undefined> {
    const { sessions } = this.backend;
    if (sessions === undefined) return undefined;
    const holders = this.#holders.get(name) ?? [];
    this.#holders.set(name, holders);
    const place = holders.includes(holder) ? holders.indexOf(holder) : holders.push(holder) - 1;
    const key = `${ttlMs} ${place}`;
    const known = this.#sessions.get(key);
    if (known !== undefined) {
      if ((await sessions.keepAlive(known, this.call())) === "alive") return known;
    }
    const { id } = await sessions.open(ttlMs, this.call());
    this.#sessions.set(key, id);
    return id;
  }
}

/** A refusal as a message tells it. */
export function describe(held: Held): string {
  const plain = (_key: string, value: unknown): unknown =>
    typeof value === "bigint" ? `${value}n` : value;
  return JSON.stringify(held, plain);
}
