/**
 * One connection to one server, for one session.
 *
 * A server that is frozen, or behind a cut cable, closes nothing: a connection whose oldest
 * unanswered request is older than a sixth of the session's time-out is given up, so that half of
 * it is left to find another server. Nothing is sent unasked: who holds leases keeps the
 * session alive, and who has stopped to does not.
 */
import { connect as connectPlain, type Socket } from "node:net";
import { connect as connectTls, type ConnectionOptions } from "node:tls";
import type { Clock, Timer, Timers } from "../../core/clock.js";
import { ConnectionLostError, ZookeeperReplyError } from "./errors.js";
import type { Address } from "./hosts.js";
import { Frames, JuteReader, JuteWriter } from "./jute.js";
import { AUTH_CODE, CLOSE_CODE, PING_CODE, type Operation } from "./operations.js";

/** Who a session's nodes belong to: the scheme `digest` of ZooKeeper. */
export interface Credentials {
  readonly user: string;
  readonly password: string;
}

/** What every connection of a client needs. */
export interface Wiring {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly tls: ConnectionOptions | undefined;
  readonly credentials: Credentials | undefined;
}

/** The session as a server knows it; `id` 0 asks for a new one. */
export interface SessionKey {
  readonly id: bigint;
  readonly password: Buffer;
  readonly timeoutMs: number;
}

/** Ids of what is not answered in turn. */
const XID = { event: -1, ping: -2, auth: -4 } as const;

interface Pending {
  readonly sentAtMs: number;
  readonly read: (from: JuteReader) => void;
  readonly fail: (error: Error) => void;
}

/** Opened with {@link openConnection}. */
export class Connection {
  /** The newest transaction of which this connection has heard. */
  lastZxid: bigint;
  /** Told once, when the connection has ended, however. */
  onEnd: (why: Error) => void = () => undefined;
  /** Told of each watched node that changed. */
  onEvent: (path: string) => void = () => undefined;
  readonly #socket: Socket;
  readonly #wiring: Wiring;
  readonly #silenceMs: number;
  readonly #pending: Pending[] = [];
  readonly #pings: Pending[] = [];
  #xid = 0;
  #hasAnswered = false;
  #timer: Timer | undefined;
  #ended: Error | undefined;

  constructor(socket: Socket, wiring: Wiring, lastZxid: bigint, timeoutMs: number) {
    this.#socket = socket;
    this.#wiring = wiring;
    this.lastZxid = lastZxid;
    // What is asked at a third of the session's time finds another server at half of it. A second
    // is what a busy server may take to answer; a session too short for that cannot wait for it.
    this.#silenceMs = Math.min(timeoutMs / 3, Math.max(1_000, timeoutMs / 6));
  }

  get isOpen(): boolean {
    return this.#ended === undefined;
  }

  /** Whether anything that was asked on it was answered. */
  get hasAnswered(): boolean {
    return this.#hasAnswered;
  }

  /** Sends a request; requests are carried out and answered in the order of their sending. */
  send<R>(operation: Operation<R>): Promise<R> {
    const xid = ++this.#xid;
    const writer = new JuteWriter().int(xid).int(operation.code);
    operation.write(writer);
    return this.#post(this.#pending, writer, (from) => operation.read(from));
  }

  /** What `send` sends in here leaves together. */
  together<R>(send: () => R): R {
    this.#socket.cork();
    try {
      return send();
    } finally {
      this.#socket.uncork();
    }
  }

  /** Prolongs the session. */
  ping(): Promise<void> {
    const writer = new JuteWriter().int(XID.ping).int(PING_CODE);
    return this.#post(this.#pings, writer, () => undefined);
  }

  /** Sends credentials. A refusal ends the connection, and with it whatever was sent after them. */
  authenticate({ user, password }: Credentials): void {
    const writer = new JuteWriter().int(XID.auth).int(AUTH_CODE).int(0).text("digest");
    this.#socket.write(writer.buffer(Buffer.from(`${user}:${password}`, "utf8")).frame());
  }

  /** Ends the session at the server, and then the connection. Answers whether the server did. */
  async closeSession(): Promise<boolean> {
    const writer = new JuteWriter().int(++this.#xid).int(CLOSE_CODE);
    const isAnswered = await this.#post(this.#pending, writer, () => true).catch(() => false);
    this.end(new ConnectionLostError("the session was closed", true));
    return isAnswered;
  }

  /** Gives the connection up. What was sent and not answered fails. */
  end(why: Error): void {
    if (this.#ended !== undefined) return;
    this.#ended = why;
    this.#timer?.cancel();
    this.#socket.destroy();
    for (const { fail } of [...this.#pending.splice(0), ...this.#pings.splice(0)]) fail(why);
    this.onEnd(why);
  }

  /** Takes one frame from the server. */
  receive(frame: Buffer): void {
    const from = new JuteReader(frame);
    const xid = from.int();
    const zxid = from.long();
    const code = from.int();
    if (zxid > this.lastZxid) this.lastZxid = zxid;
    if (xid === XID.event) this.#hear(from);
    else if (xid === XID.ping) this.#settle(this.#pings, from, 0);
    else if (xid !== XID.auth) this.#settle(this.#pending, from, code);
    else if (code !== 0) this.end(new ZookeeperReplyError(code));
  }

  #post<R>(queue: Pending[], writer: JuteWriter, read: (from: JuteReader) => R): Promise<R> {
    return new Promise((resolve, reject) => {
      if (this.#ended !== undefined) {
        reject(new ConnectionLostError(this.#ended.message, false));
        return;
      }
      const sentAtMs = this.#wiring.clock.monotonicMs();
      queue.push({ sentAtMs, read: (from) => resolve(read(from)), fail: reject });
      this.#socket.write(writer.frame());
      this.#arm();
    });
  }

  #settle(queue: Pending[], from: JuteReader, code: number): void {
    const pending = queue.shift();
    if (pending === undefined) throw new RangeError("an answer came to no request");
    this.#hasAnswered = true;
    if (code !== 0) {
      pending.fail(new ZookeeperReplyError(code));
      return;
    }
    try {
      pending.read(from);
    } catch (error) {
      pending.fail(error as Error);
      // A transaction that was refused is told by its body.
      if (!(error instanceof ZookeeperReplyError)) throw error;
    }
  }

  #hear(from: JuteReader): void {
    from.int();
    from.int();
    this.onEvent(from.text());
  }

  #oldestMs(): number {
    return Math.min(this.#pending[0]?.sentAtMs ?? Infinity, this.#pings[0]?.sentAtMs ?? Infinity);
  }

  #arm(): void {
    if (this.#timer !== undefined || this.#ended !== undefined) return;
    const leftMs = this.#oldestMs() + this.#silenceMs - this.#wiring.clock.monotonicMs();
    if (leftMs === Infinity) return;
    this.#timer = this.#wiring.timers.after(Math.max(1, leftMs), () => {
      // After a blocked event loop the answer may be here and unread: reading comes before `soon`.
      this.#timer = this.#wiring.timers.soon(() => {
        this.#timer = undefined;
        const silentMs = this.#wiring.clock.monotonicMs() - this.#oldestMs();
        if (silentMs < this.#silenceMs) this.#arm();
        else this.end(new ConnectionLostError(`no answer for ${Math.round(silentMs)} ms`, true));
      });
    });
  }
}

/** A connection under a session, which may be a new one. */
export interface Opened {
  readonly connection: Connection;
  /** As the server has it: the time-out may differ from the one asked for. */
  readonly key: SessionKey;
}

/**
 * Connects to one server, within `limitMs`. Answers `gone` when the server says that the session
 * has ended.
 *
 * @throws Error when it could not connect, or the server serves nobody now.
 */
export function openConnection(
  address: Address,
  asked: SessionKey & { readonly lastZxid: bigint },
  wiring: Wiring,
  limitMs: number,
): Promise<Opened | "gone"> {
  const { host, port } = address;
  const where = `${host}:${port}`;
  return new Promise((resolve, reject) => {
    const socket =
      wiring.tls === undefined
        ? connectPlain({ host, port })
        : connectTls({ ...wiring.tls, host, port });
    socket.setNoDelay();
    const frames = new Frames();
    let connection: Connection | undefined;
    const fail = (why: string): void => {
      timer.cancel();
      if (connection === undefined) {
        socket.destroy();
        reject(new ConnectionLostError(`${where} ${why}`, false));
      } else connection.end(new ConnectionLostError(`${where} ${why}`, true));
    };
    const timer = wiring.timers.after(limitMs, () =>
      fail(`is silent for ${Math.round(limitMs)} ms`),
    );
    const welcome = (frame: Buffer): void => {
      timer.cancel();
      const key = readWelcome(frame);
      if (key.id === 0n || key.timeoutMs <= 0) {
        socket.destroy();
        resolve("gone");
        return;
      }
      connection = new Connection(socket, wiring, asked.lastZxid, key.timeoutMs);
      if (wiring.credentials !== undefined) connection.authenticate(wiring.credentials);
      resolve({ connection, key });
    };
    socket.once(wiring.tls === undefined ? "connect" : "secureConnect", () => {
      socket.write(writeGreeting(asked));
    });
    socket.on("data", (piece: Buffer) => {
      try {
        for (const frame of frames.push(piece)) {
          if (connection === undefined) welcome(frame);
          else connection.receive(frame);
        }
      } catch (error) {
        fail(`speaks another protocol: ${(error as Error).message}`);
      }
    });
    socket.on("error", (error: Error) => fail(`cannot be reached: ${error.message}`));
    socket.on("close", () => {
      const isNew = connection === undefined;
      fail(isNew ? "closed the connection: it serves nobody now" : "closed the connection");
    });
  });
}

function writeGreeting(asked: SessionKey & { readonly lastZxid: bigint }): Buffer {
  return new JuteWriter()
    .int(0)
    .long(asked.lastZxid)
    .int(asked.timeoutMs)
    .long(asked.id)
    .buffer(asked.password)
    .bool(false)
    .frame();
}

function readWelcome(frame: Buffer): SessionKey {
  const from = new JuteReader(frame);
  from.int();
  const timeoutMs = from.int();
  return { timeoutMs, id: from.long(), password: Buffer.from(from.buffer()) };
}
