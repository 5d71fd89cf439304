/** One question to the cluster, put to one member after the other until one has answered. */
import { OutcomeUnknownError, UnavailableError } from "../../core/errors.js";
import type { Clock } from "../../core/clock.js";
import type { Due } from "./alarm.js";
import type { Answer, Endpoint } from "./endpoint.js";
import { isRefusal, refusalOf } from "./refusals.js";

/** How a question is put. */
export interface AskOptions {
  /** What is being done, as it stands after "cannot": "acquire a lease". */
  readonly during: string;
  /** Nothing can have happened when there is no answer. */
  readonly isRead?: boolean;
  readonly timeoutMs: number;
  /** Whether it must not wait for others: it keeps what is held. */
  readonly isUrgent?: boolean;
  /** Which lock name, for errors. */
  readonly lock?: string;
}

/** What the cluster answered. */
export interface Reply {
  /** The answer as JSON; 64-bit numbers are text, and what is zero or false is left out. */
  readonly body: object;
  /** Whether a copy of the request may still be carried out. */
  readonly isLoose: boolean;
  /** Instead of a body: the lease in the request is gone, or the revision. */
  readonly refused?: "no-lease" | "compacted";
}

/** The members, as a question sees them. */
export interface Members {
  readonly clock: Clock;
  readonly endpoints: readonly Endpoint[];
  /** The member to ask first. */
  readonly first: Endpoint;
  /** How long a member may be silent before another one is asked as well, milliseconds. */
  readonly patienceMs: number;
  /** A member fell silent, or cannot serve: others are asked before it from now on. */
  avoid(endpoint: Endpoint): void;
  headers(): Readonly<Record<string, string>>;
  answered(tookMs: number): void;
  /** Logs in again. Answers false where that is of no use. */
  renewLogin(): Promise<boolean>;
  /** Whether the answer comes from another cluster than those before. */
  isStranger(json: object): boolean;
  /** Looks after a question when it is due, from now on, or no more. */
  watchOver(question: Asking): void;
  over(question: Asking): void;
}

const BACKEND = "etcd";
/** Between two members that are asked the same, milliseconds. */
const LONGEST_WAIT_MS = 1_000;
/** Answered by a member that is cut off from the others, too. */
const ANSWERED_ALONE = ["/v3/lease/keepalive", "/v3/maintenance/status"];

/** One question. */
export class Asking implements Due {
  readonly options: AskOptions;
  /** When to look whether somebody else has to be asked. */
  dueMs: number;
  readonly #client: Members;
  readonly #path: string;
  readonly #body: string;
  /** What abandons each request under way. */
  readonly #running = new Set<() => void>();
  readonly #untilMs: number;
  /** The member that was asked last. */
  #last: Endpoint | undefined;
  #lookedMs: number;
  /** Members that certainly did nothing, since the last one that was silent. */
  #failed = 0;
  #waitMs: number;
  #isLoose = false;
  /** A new login for this question. One is enough: with a second refusal it is wrong. */
  #login: "none" | "under way" | "done" = "none";
  #isSettled = false;
  /** What each member did not do it for, by name. */
  #failures: Map<string, string> | undefined;
  #cause: unknown;
  #resolve: (reply: Reply) => void = () => undefined;
  #reject: (error: Error) => void = () => undefined;

  /** @param untilMs when to give up, on the monotonic clock */
  constructor(client: Members, path: string, body: string, options: AskOptions, untilMs: number) {
    this.#client = client;
    this.#path = path;
    this.#body = body;
    this.options = options;
    this.#lookedMs = client.clock.monotonicMs();
    this.#untilMs = untilMs;
    this.#waitMs = client.patienceMs;
    this.dueMs = Math.min(this.#lookedMs + this.#waitMs, untilMs);
  }

  run(): Promise<Reply> {
    return new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
      this.#client.watchOver(this);
      this.#askAt(this.#client.first);
    });
  }

  /** Nobody waits any more. */
  end(): void {
    this.#giveUp("the client was closed");
  }

  /**
   * Silence: the next member is asked as well, or the only one on a new connection. A member that
   * answers others meanwhile is slow, not silent: to ask everything twice would make it slower.
   */
  look(nowMs: number): void {
    if (nowMs >= this.#untilMs) return this.#giveUp();
    const isSlow = this.#running.size > 0 && (this.#last?.servedMs ?? 0) >= this.#lookedMs;
    // Until it is logged in anew, nobody answers anything else.
    const isWaiting = isSlow || this.#login === "under way";
    this.#lookedMs = nowMs;
    // While a leader is being elected requests are dropped in silence, also by good members.
    this.#waitMs = Math.min(2 * this.#waitMs, LONGEST_WAIT_MS);
    this.dueMs = Math.min(nowMs + this.#waitMs, this.#untilMs);
    if (!isWaiting) this.#askAnother();
  }

  #askAt(endpoint: Endpoint): void {
    const client = this.#client;
    const sentMs = client.clock.monotonicMs();
    this.#last = endpoint;
    let abandon = (): void => undefined;
    try {
      abandon = endpoint.post(this.#path, this.#body, client.headers(), {
        answered: (answer) => {
          this.#running.delete(abandon);
          client.answered(client.clock.monotonicMs() - sentMs);
          this.#take(endpoint, answer);
        },
        failed: (error) => {
          this.#running.delete(abandon);
          if (error.wasSent) this.#isLoose = true;
          this.#cause = error.cause;
          this.#next(endpoint, error.message);
          if (this.#failed >= client.endpoints.length && this.#running.size === 0) this.#giveUp();
        },
      });
    } catch (error) {
      // Nothing that can be sent, to whichever member: a token with a line break in it, say.
      return this.#refuse(`nothing can be sent: ${(error as Error).message}`, false, error);
    }
    this.#running.add(abandon);
  }

  #take(endpoint: Endpoint, { status, text }: Answer): void {
    let json: object;
    try {
      json = (JSON.parse(text) ?? {}) as object;
    } catch {
      // Not JSON: a refusal by something between, or by another program.
      json = { error: text };
    }
    if (!isRefusal(status, json)) return this.#succeed(endpoint, json);
    const { kind, what } = refusalOf(status, text);
    switch (kind) {
      case "no-lease":
      case "compacted":
        return this.#answer({ body: {}, refused: kind });
      case "login":
        if (this.#login !== "none") break;
        this.#login = "under way";
        this.#client.renewLogin().then(
          (isNew) => {
            this.#login = "done";
            // Given up meanwhile, as certainly not done: then it must not be sent any more.
            if (this.#isSettled) return;
            if (isNew) this.#askAt(endpoint);
            else this.#refuse(what, false);
          },
          (error: Error) => this.#refuse(error.message, !isFinal(error)),
        );
        return;
      case "elsewhere":
        return this.#next(endpoint, what);
      case "lost":
        this.#isLoose = true;
        return this.#next(endpoint, what);
      case "passing":
        return this.#refuse(what, true);
      case "staying":
    }
    this.#refuse(what, false);
  }

  #succeed(endpoint: Endpoint, json: object): void {
    // An answer of a stream that ends after it stands under `result`.
    const { result = json } = json as { readonly result?: object };
    if (this.#client.isStranger(result)) {
      const what = `${endpoint.name} belongs to another cluster than the other hosts`;
      return this.#refuse(what, false);
    }
    if (!ANSWERED_ALONE.includes(this.#path)) {
      endpoint.servedMs = this.#client.clock.monotonicMs();
    }
    this.#answer({ body: result });
  }

  #answer(reply: Omit<Reply, "isLoose">): void {
    const isLoose = this.#isLoose || this.#running.size > 0;
    this.#settle(() => this.#resolve({ ...reply, isLoose }));
  }

  /**
   * This member did not help. Others are asked at once, each of them once; where none can serve, an
   * election may be under way, and the timer asks again.
   */
  #next(endpoint: Endpoint, what: string): void {
    this.#failures ??= new Map();
    this.#failures.set(endpoint.name, what);
    this.#failed += 1;
    this.#client.avoid(endpoint);
    const { length } = this.#client.endpoints;
    if (this.#failed < length) this.#askAt(this.#client.first);
  }

  #askAnother(): void {
    this.#last?.refresh();
    if (this.#last !== undefined) this.#client.avoid(this.#last);
    this.#failed = 0;
    this.#askAt(this.#client.first);
  }

  #giveUp(why = "no quorum, or out of reach"): void {
    const each = this.#client.endpoints.map(
      ({ name, silence }) => `${name}: ${this.#failures?.get(name) ?? silence}`,
    );
    this.#refuse(`${why} (${each.join("; ")})`, true, this.#cause);
  }

  /** One member's refusal says nothing of the copy that another one may have carried out. */
  #refuse(what: string, retryable: boolean, cause?: unknown): void {
    const { during, isRead = false, lock } = this.options;
    const isLoose = this.#isLoose || this.#running.size > 0;
    const about = { backend: BACKEND, ...(lock === undefined ? {} : { lock }) };
    const context = cause === undefined ? about : { ...about, cause };
    const error =
      isRead || !isLoose
        ? new UnavailableError(`cannot ${during}: ${what}`, { ...context, retryable })
        : new OutcomeUnknownError(`cannot ${during}, the outcome is unknown: ${what}`, context);
    this.#settle(() => this.#reject(error));
  }

  #settle(tell: () => void): void {
    if (this.#isSettled) return;
    this.#isSettled = true;
    this.#client.over(this);
    for (const abandon of this.#running) abandon();
    this.#running.clear();
    tell();
  }
}

function isFinal(error: Error): boolean {
  return error instanceof UnavailableError && !error.retryable;
}
