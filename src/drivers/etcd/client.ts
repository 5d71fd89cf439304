/**
 * A client of an etcd cluster, over its JSON gateway.
 *
 * A member that is silent must not use up the time of a call: after a moment the next one is asked
 * as well, and the first answer counts. So a request may be carried out twice, or long after its
 * call: every request has to be harmless then, and the answer says whether a copy may still come.
 */
import { ArgumentTypeError, UnavailableError } from "../../core/errors.js";
import type { Clock, Timers } from "../../core/clock.js";
import { etcdAddress, type EtcdAccess } from "./address.js";
import { Alarm } from "./alarm.js";
import { Asking, type AskOptions, type Members, type Reply } from "./asking.js";
import { Endpoint } from "./endpoint.js";
import { isRefusal, refusalOf } from "./refusals.js";
import { Slots } from "./slots.js";

/** What the client takes from the outside world. */
export interface EtcdRuntime {
  readonly clock: Clock;
  readonly timers: Timers;
}

/** What a watch tells. */
export interface WatchSink {
  /** One message of the stream: what stands under `result`. */
  message(result: object): void;
  /** The stream has ended. Told once, and not after `close`. */
  ended(): void;
}

/** Bounds of how long a member may be silent before another one is asked as well. */
const LEAST_PATIENCE_MS = 300;
const MOST_PATIENCE_MS = 1_000;
const USUAL_TIMES = 4;
const LOGIN_MS = 5_000;
/** Requests under way at a time, but for urgent ones. */
const MOST_AT_ONCE = 64;
const ABOUT = { backend: "etcd" };

/** A client of one cluster. To be closed. */
export class EtcdClient implements Members {
  readonly clock: Clock;
  readonly endpoints: readonly Endpoint[];
  readonly #alarm: Alarm;
  readonly #login: { readonly name: string; readonly password: string } | undefined;
  readonly #running = new Set<{ end(): void }>();
  readonly #slots: Slots;
  #preferred = 0;
  #usualMs = 0;
  #clusterId: string | undefined;
  #token: string | undefined;
  #loggingIn: Promise<void> | undefined;
  #isClosed = false;

  /** @throws TypeError or RangeError for hosts or options that cannot be read. */
  constructor(hostsOrUrl: string | readonly string[], access: EtcdAccess, runtime: EtcdRuntime) {
    const { hosts, tls, user, password } = etcdAddress(hostsOrUrl, access);
    this.endpoints = hosts.map((host) => new Endpoint(host, tls));
    this.#login =
      user === undefined || password === undefined ? undefined : { name: user, password };
    this.#slots = new Slots(runtime.timers, MOST_AT_ONCE);
    this.#alarm = new Alarm(runtime.clock, runtime.timers);
    this.clock = runtime.clock;
  }

  /**
   * Asks the cluster: `path` is what follows `/v3/`.
   *
   * @throws UnavailableError when it certainly did not happen, or when nothing could: a read.
   * @throws OutcomeUnknownError when it may have.
   */
  ask(path: string, body: object, options: AskOptions): Promise<Reply> {
    const untilMs = this.clock.monotonicMs() + options.timeoutMs;
    const mustWait = this.#isClosed || this.#mustLogIn || !this.#slots.enterNow(options);
    return mustWait
      ? this.#askLater(path, body, options, untilMs)
      : this.#send(path, body, options, untilMs);
  }

  /** As `ask`, where something comes before it. */
  async #askLater(
    path: string,
    body: object,
    options: AskOptions,
    untilMs: number,
  ): Promise<Reply> {
    const { during, timeoutMs } = options;
    this.#checkOpen();
    if (!this.#slots.enterNow(options) && !(await this.#slots.enter(timeoutMs))) {
      this.#checkOpen();
      throw new UnavailableError(`cannot ${during}: too much was under way to send it`, ABOUT);
    }
    try {
      if (this.#mustLogIn) await this.#logIn();
      // Closed, or late, while it waited: nothing was sent.
      this.#checkOpen();
      if (this.clock.monotonicMs() >= untilMs) {
        throw new UnavailableError(`cannot ${during}: no time was left to send it`, ABOUT);
      }
    } catch (error) {
      this.#slots.leave(options);
      throw error;
    }
    return await this.#send(path, body, options, untilMs);
  }

  /** Whoever sends is in one of the slots, and leaves it when the question is over. */
  #send(path: string, body: object, options: AskOptions, untilMs: number): Promise<Reply> {
    return this.#run(new Asking(this, `/v3/${path}`, JSON.stringify(body), options, untilMs));
  }

  get #mustLogIn(): boolean {
    return this.#login !== undefined && this.#token === undefined;
  }

  #run(asking: Asking): Promise<Reply> {
    this.#running.add(asking);
    return asking.run();
  }

  /**
   * Watches, with the request that the gateway wants. A stream may fall silent without an end:
   * whoever watches has to look now and then as well. Answers what ends it.
   */
  watch(create: object, sink: WatchSink): () => void {
    this.#checkOpen();
    const end = this.first.stream(
      "/v3/watch",
      JSON.stringify({ create_request: create }),
      // A member that is cut off from its leader ends the stream instead of keeping quiet.
      { ...this.headers(), "Grpc-Metadata-hasleader": "true" },
      (line) => {
        let json: { readonly result?: object } | undefined;
        try {
          json = JSON.parse(line) as { readonly result?: object };
        } catch {
          // Half a line, of a stream that broke: it has ended.
        }
        if (json?.result !== undefined && !isRefusal(200, json)) return sink.message(json.result);
        if (json !== undefined && refusalOf(200, line).kind === "login") this.#token = undefined;
        stop();
        sink.ended();
      },
      () => {
        this.#running.delete(watching);
        sink.ended();
      },
    );
    const stop = (): void => {
      this.#running.delete(watching);
      end();
    };
    const watching = { end: stop };
    this.#running.add(watching);
    return stop;
  }

  /** Ends everything under way; its outcome is unknown. */
  close(): void {
    this.#isClosed = true;
    this.#slots.close();
    for (const one of [...this.#running]) one.end();
    this.#alarm.close();
    for (const endpoint of this.endpoints) endpoint.close();
  }

  watchOver(question: Asking): void {
    this.#alarm.add(question);
  }

  over(question: Asking): void {
    this.#alarm.delete(question);
    this.#running.delete(question);
    this.#slots.leave(question.options);
  }

  get first(): Endpoint {
    return this.endpoints[this.#preferred]!;
  }

  avoid(endpoint: Endpoint): void {
    if (this.first === endpoint) this.#preferred = (this.#preferred + 1) % this.endpoints.length;
  }

  headers(): Readonly<Record<string, string>> {
    return this.#token === undefined ? {} : { Authorization: this.#token };
  }

  /**
   * Grows with what is usual: a cluster at its limit must not be asked everything twice.
   */
  get patienceMs(): number {
    return Math.min(MOST_PATIENCE_MS, Math.max(LEAST_PATIENCE_MS, USUAL_TIMES * this.#usualMs));
  }

  answered(tookMs: number): void {
    this.#usualMs += (tookMs - this.#usualMs) / 8;
  }

  async renewLogin(): Promise<boolean> {
    if (this.#login === undefined) return false;
    await this.#logIn();
    return true;
  }

  isStranger(json: object): boolean {
    const { header } = json as { readonly header?: { readonly cluster_id?: string } };
    if (header?.cluster_id === undefined) return false;
    this.#clusterId ??= header.cluster_id;
    return this.#clusterId !== header.cluster_id;
  }

  async #logIn(): Promise<void> {
    this.#loggingIn ??= this.#logInNow().finally(() => (this.#loggingIn = undefined));
    await this.#loggingIn;
  }

  async #logInNow(): Promise<void> {
    this.#token = undefined;
    // Whoever waits for it is in a slot already.
    const options = { during: "log in", isRead: true, isUrgent: true, timeoutMs: LOGIN_MS };
    const untilMs = this.clock.monotonicMs() + LOGIN_MS;
    const login = JSON.stringify(this.#login);
    const { body } = await this.#run(
      new Asking(this, "/v3/auth/authenticate", login, options, untilMs),
    );
    this.#token = (body as { readonly token?: string }).token;
  }

  #checkOpen(): void {
    if (!this.#isClosed) return;
    throw new UnavailableError("this client of etcd is closed", { ...ABOUT, retryable: false });
  }
}

/** The client, checked. @throws TypeError for anything else. */
export function knownEtcd(client: unknown): EtcdClient {
  if (client instanceof EtcdClient) return client;
  throw new ArgumentTypeError(
    "client",
    client,
    "a URL, a list of hosts, or what etcdClient() made",
  );
}
