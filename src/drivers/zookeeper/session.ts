/**
 * One session: a name at the ensemble for nodes that end with it, kept over connections.
 *
 * States. **Connected**: requests go out at once. **Looking**: the connection ended, and somebody
 * wants an answer or waits for a watched node; servers are tried one after the other under the same
 * id and password. **Idle**: the connection ended and nobody wants anything: the next request
 * looks. **Gone**: a server said that the session has ended; it is never used again. **Closed**: by
 * us. That a session may have ended while nobody could be asked is not a state: only a server
 * knows, and the holder's own deadline does not wait for it.
 */
import type { Call } from "../../core/backend.js";
import type { Timer } from "../../core/clock.js";
import type { Random } from "../../core/random.js";
import type { Connection, SessionKey, Wiring } from "./connection.js";
import { ConnectionLostError, isOfSession, isReply, SessionGoneError, ZK } from "./errors.js";
import { greet, GREET_MS, greetMs } from "./greeting.js";
import { shuffled, type Address } from "./hosts.js";
import type { Operation } from "./operations.js";

/** What all sessions of a client share. */
export interface SessionParts {
  readonly addresses: readonly Address[];
  readonly wiring: Wiring;
  readonly random: Random;
}

const FIRST_PAUSE_MS = 25;
const LONGEST_PAUSE_MS = 500;
/** Longest wait for the answer to a close, milliseconds: without it the time-out ends the rest. */
const CLOSE_MS = 1_000;
/** Pause between two rounds of looking for a server to close at, milliseconds. */
const CLOSE_PAUSE_MS = 100;

/** Opened with {@link openSession}. */
export class Session {
  /** In hexadecimal, as the server's own log has it. */
  readonly id: string;
  /** As the server granted it. */
  readonly timeoutMs: number;
  readonly #parts: SessionParts;
  readonly #order: readonly Address[];
  readonly #watches = new Map<string, Set<() => void>>();
  readonly #wanting = new Set<(error?: Error) => void>();
  #key: SessionKey;
  #connection: Connection | undefined;
  #lastZxid = 0n;
  #next: number;
  #looking = false;
  /** Connections in a row that were found, and ended before they had answered anything. */
  #barren = 0;
  #pause: { readonly timer: Timer; readonly end: () => void } | undefined;
  #over: "gone" | "closed" | undefined;
  #why: Error | undefined;
  #closing: Promise<void> | undefined;

  constructor(
    parts: SessionParts,
    order: readonly Address[],
    next: number,
    key: SessionKey,
    connection: Connection,
  ) {
    this.#parts = parts;
    this.#order = order;
    this.#next = next;
    this.#key = key;
    this.id = BigInt.asUintN(64, key.id).toString(16);
    this.timeoutMs = key.timeoutMs;
    this.#adopt(connection);
  }

  /** The owner that nodes of this session show. */
  get owner(): bigint {
    return this.#key.id;
  }

  get isGone(): boolean {
    return this.#over !== undefined;
  }

  /** The newest transaction that was heard of. */
  get lastZxid(): bigint {
    return this.#lastZxid;
  }

  /**
   * Sends a request, on a connection to be made where there is none.
   *
   * @throws SessionGoneError. ConnectionLostError when the connection ended first, or none was
   *   found in time. ZookeeperReplyError as the server refused.
   */
  async request<R>(operation: Operation<R>, call: Call): Promise<R> {
    const connection = await this.#connected(call);
    return this.#sent(connection, connection.send(operation));
  }

  /**
   * As `request`, with a question that is sent right after it, on the same connection, and so
   * answered as of then or later. Its answer is undefined where it was refused or lost.
   */
  async requestThen<R, Q>(
    operation: Operation<R>,
    question: Operation<Q>,
    call: Call,
  ): Promise<readonly [answer: R, then: Promise<Q | undefined>]> {
    const connection = await this.#connected(call);
    const [answer, then] = connection.together(() => [
      connection.send(operation),
      connection.send(question).catch(() => undefined),
    ]);
    return [await this.#sent(connection, answer), then];
  }

  /** As `request`, for what may be asked twice: once more on each new connection. */
  async ask<R>(operation: Operation<R>, call: Call): Promise<R> {
    return this.#insist(call, (connection) => connection.send(operation));
  }

  /** Requests sent together, carried out in this order; all of them may be asked twice. */
  async askAll<R extends readonly unknown[]>(
    operations: { readonly [I in keyof R]: Operation<R[I]> },
    call: Call,
  ): Promise<{ [I in keyof R]: PromiseSettledResult<R[I]> }> {
    return this.#insist(call, async (connection) => {
      const all = connection.together(() =>
        operations.map((operation: Operation<unknown>) => connection.send(operation)),
      );
      const settled = await Promise.allSettled(all);
      for (const one of settled) {
        if (one.status === "rejected" && isOfSession(one.reason)) throw one.reason;
      }
      return settled as { [I in keyof R]: PromiseSettledResult<R[I]> };
    });
  }

  /** Prolongs the session; `gone` only when a server said so. */
  async ping(call: Call): Promise<"alive" | "gone"> {
    try {
      await this.#insist(call, (connection) => connection.ping());
      return "alive";
    } catch (error) {
      if (error instanceof SessionGoneError) return "gone";
      throw error;
    }
  }

  /**
   * Tells `changed` once: when the server tells of the node, when the connection was lost and
   * another one found (what happened meanwhile was not told), or when the session ends. The node
   * must be asked for with `watch` set. Answers how to stop listening.
   */
  watch(path: string, changed: () => void): () => void {
    const set = this.#watches.get(path) ?? new Set();
    this.#watches.set(path, set.add(changed));
    return () => {
      set.delete(changed);
      if (set.size === 0 && this.#watches.get(path) === set) this.#watches.delete(path);
    };
  }

  /**
   * Ends the session, at the server too. Where the connection is lost, or is lost meanwhile,
   * another one is looked for as long as `patienceMs`: a server that is not told keeps the nodes
   * of the session until its time-out.
   */
  close(patienceMs = 0): Promise<void> {
    return (this.#closing ??= this.#close(patienceMs));
  }

  async #close(patienceMs: number): Promise<void> {
    if (this.#over !== undefined) return;
    const { clock } = this.#parts.wiring;
    // After its time-out there is nothing left to end.
    const untilMs = clock.monotonicMs() + Math.min(patienceMs, this.timeoutMs);
    const connection = this.#connection;
    this.#end("closed");
    if (connection?.isOpen === true && (await this.#closeOn(connection, CLOSE_MS))) return;
    for (let tries = 1; ; tries++) {
      const leftMs = untilMs - clock.monotonicMs();
      if (leftMs <= 0 || (await this.#closeAnew(Math.min(leftMs, GREET_MS)))) return;
      if (tries % this.#order.length === 0) await this.#sleep(Math.min(leftMs, CLOSE_PAUSE_MS));
    }
  }

  /** Whether the session has ended, as one server knows. */
  async #closeAnew(limitMs: number): Promise<boolean> {
    const asked = { ...this.#key, lastZxid: this.#lastZxid };
    try {
      const found = await greet(this.#parts.wiring, this.#order, this.#next++, asked, limitMs);
      return found === "gone" || (await this.#closeOn(found.connection, limitMs));
    } catch (error) {
      this.#why = error as Error;
      return false;
    }
  }

  /** Whether the server has answered. */
  async #closeOn(connection: Connection, limitMs: number): Promise<boolean> {
    const timer = this.#parts.wiring.timers.after(Math.min(limitMs, CLOSE_MS), () => {
      connection.end(new ConnectionLostError("the session was closed", true));
    });
    const isAnswered = await connection.closeSession();
    timer.cancel();
    return isAnswered;
  }

  #sleep(ms: number): Promise<void> {
    return new Promise((wake) => void this.#parts.wiring.timers.after(ms, wake));
  }

  async #insist<R>(call: Call, send: (connection: Connection) => Promise<R>): Promise<R> {
    for (;;) {
      const connection = await this.#connected(call);
      try {
        return await this.#sent(connection, send(connection));
      } catch (error) {
        if (!(error instanceof ConnectionLostError)) throw error;
        if (call.signal.aborted) throw error;
      }
    }
  }

  async #sent<R>(connection: Connection, answer: Promise<R>): Promise<R> {
    try {
      return await answer;
    } catch (error) {
      if (isReply(error, ZK.sessionExpired)) {
        this.#end("gone");
        throw new SessionGoneError();
      }
      // Another server has the session: this connection was left, and hears nothing more.
      if (isReply(error, ZK.sessionMoved)) {
        connection.end(error);
        throw new ConnectionLostError(error.message, true);
      }
      throw error;
    } finally {
      if (connection.lastZxid > this.#lastZxid) this.#lastZxid = connection.lastZxid;
    }
  }

  async #connected(call: Call): Promise<Connection> {
    for (;;) {
      if (this.#over !== undefined) throw new SessionGoneError();
      if (this.#connection?.isOpen === true) return this.#connection;
      await this.#wanted(call);
    }
  }

  /** Resolves once the state has changed; rejects when the call's time is over. */
  #wanted(call: Call): Promise<void> {
    return new Promise((resolve, reject) => {
      const { timers } = this.#parts.wiring;
      const give = (error?: Error): void => {
        timer.cancel();
        call.signal.removeEventListener("abort", over);
        this.#wanting.delete(give);
        if (error === undefined) resolve();
        else reject(error);
      };
      const over = (): void => {
        const why = this.#why?.message ?? "no server was found in time";
        give(new ConnectionLostError(why, false));
      };
      const timer = timers.after(call.timeoutMs, over);
      this.#wanting.add(give);
      if (call.signal.aborted) {
        over();
        return;
      }
      call.signal.addEventListener("abort", over, { once: true });
      this.#look();
    });
  }

  #look(): void {
    if (this.#looking) return;
    this.#looking = true;
    void this.#find().finally(() => (this.#looking = false));
  }

  async #find(): Promise<void> {
    const { random } = this.#parts;
    let pauseMs = FIRST_PAUSE_MS;
    // A server that greets and then hangs up must not be asked again as fast as it can.
    const barrenMs = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** this.#barren);
    if (this.#barren > 1) await this.#rest(barrenMs * (0.5 + random.uniform()));
    for (let tries = 1; this.#isWanted(); tries++) {
      try {
        const asked = { ...this.#key, lastZxid: this.#lastZxid };
        const limitMs = greetMs(asked, Math.floor((tries - 1) / this.#order.length));
        const found = await greet(this.#parts.wiring, this.#order, this.#next++, asked, limitMs);
        if (found === "gone") this.#end("gone");
        else if (this.#over !== undefined) found.connection.end(new SessionGoneError());
        else this.#adopt(found.connection);
      } catch (error) {
        this.#why = error as Error;
        if (tries % this.#order.length !== 0) continue;
        await this.#rest(pauseMs * (0.5 + random.uniform()));
        pauseMs = Math.min(LONGEST_PAUSE_MS, pauseMs * 2);
      }
    }
  }

  #isWanted(): boolean {
    if (this.#over !== undefined || this.#connection?.isOpen === true) return false;
    return this.#wanting.size > 0 || this.#watches.size > 0;
  }

  #rest(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const end = (): void => {
        this.#pause = undefined;
        resolve();
      };
      this.#pause = { timer: this.#parts.wiring.timers.after(ms, end), end };
    });
  }

  #adopt(connection: Connection): void {
    this.#connection = connection;
    connection.onEvent = (path) => this.#fire(path);
    connection.onEnd = (why) => {
      this.#why = why;
      this.#barren = connection.hasAnswered ? 0 : this.#barren + 1;
      if (connection.lastZxid > this.#lastZxid) this.#lastZxid = connection.lastZxid;
      if (isReply(why, ZK.authFailed)) this.#refused(why);
      if (this.#isWanted()) this.#look();
    };
    // The server of a new connection knows of no watch: each listener looks for itself.
    for (const path of [...this.#watches.keys()]) this.#fire(path);
    for (const give of [...this.#wanting]) give();
  }

  /** Credentials that one server refuses are refused by all. */
  #refused(why: Error): void {
    for (const give of [...this.#wanting]) give(why);
  }

  #fire(path: string): void {
    const set = this.#watches.get(path);
    this.#watches.delete(path);
    for (const changed of set ?? []) changed();
  }

  #end(how: "gone" | "closed"): void {
    this.#over = how;
    if (how === "gone") this.#connection?.end(new SessionGoneError());
    this.#pause?.timer.cancel();
    this.#pause?.end();
    for (const path of [...this.#watches.keys()]) this.#fire(path);
    for (const give of [...this.#wanting]) give(new SessionGoneError());
  }
}

/**
 * A new session, at the first server that gives one.
 *
 * @throws ConnectionLostError when none did within the call's time, or all refused.
 */
export async function openSession(
  parts: SessionParts,
  timeoutMs: number,
  call: Call,
): Promise<Session> {
  const order = shuffled(parts.addresses, parts.random);
  const { clock, timers } = parts.wiring;
  const untilMs = clock.monotonicMs() + call.timeoutMs;
  const asked = { id: 0n, password: Buffer.alloc(16), timeoutMs, lastZxid: 0n };
  for (let next = 0; ; next++) {
    try {
      const limitMs = greetMs(asked, Math.floor(next / order.length));
      const found = await greet(parts.wiring, order, next, asked, limitMs);
      if (found === "gone") throw new ConnectionLostError("a server gave no session", false);
      return new Session(parts, order, next + 1, found.key, found.connection);
    } catch (error) {
      const isRoundOver = (next + 1) % order.length === 0;
      const pauseMs = isRoundOver ? LONGEST_PAUSE_MS / 2 : 0;
      const isOver = clock.monotonicMs() + pauseMs >= untilMs || call.signal.aborted;
      // An ensemble that elects a leader is back soon, and a wrong address never.
      if (isOver || (isRoundOver && next + 1 >= 4 * order.length)) throw error;
      if (pauseMs > 0) await new Promise<void>((wake) => timers.after(pauseMs, wake));
    }
  }
}
