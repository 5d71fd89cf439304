/** Sessions of one ensemble, with what backend and fence ask of them. */
import type { ConnectionOptions } from "node:tls";
import type { Call } from "../../core/backend.js";
import { ArgumentTypeError } from "../../core/errors.js";
import { checkKnown, checkWord } from "../../core/options.js";
import type { Runtime } from "../../core/runtime.js";
import { platform } from "../../platform/index.js";
import { checkTlsSettings } from "../tls-settings.js";
import { isReply, ZK, ZookeeperReplyError } from "./errors.js";
import { parseEnsemble, type Ensemble } from "./hosts.js";
import {
  change,
  getChildren,
  getData,
  multi,
  sync,
  type Access,
  type Change,
  type Changed,
  type Operation,
  type Stat,
} from "./operations.js";
import { PlainSession } from "./plain-session.js";
import { openSession, type Session, type SessionParts } from "./session.js";

/** Settings of a {@link ZookeeperClient}. */
export interface ZookeeperClientOptions {
  /**
   * Who the nodes belong to: the scheme `digest` of ZooKeeper. Default: what the URL says before
   * its `@`, else nobody. The password crosses the network as it is, unless there is TLS.
   */
  readonly credentials?: { readonly user: string; readonly password: string };
  /**
   * Who may touch nodes that are made: with `creator` only who has the same credentials. Default
   * `creator` where there are credentials, else `open`.
   */
  readonly access?: Access;
  /** TLS to the servers' secure port, with these options of `node:tls`. Default: none. */
  readonly tls?: ConnectionOptions;
  /** Clock, timers and randomness. Default: the machine's. */
  readonly runtime?: Pick<Runtime, "clock" | "timers" | "random">;
}

/** A node as it was read. */
export interface ZookeeperNode {
  readonly data: Buffer;
  readonly stat: Stat;
}

/** Why a change was refused that depends on what is there. */
export type Refusal = "no-node" | "node-exists" | "bad-version" | "not-empty";

/** What came of changes: all were made, or none, because of the one at `place`. */
export type Committed =
  | { readonly ok: true; readonly done: readonly Changed[] }
  | { readonly ok: false; readonly why: Refusal; readonly place: number };

const REFUSALS: ReadonlyMap<number, Refusal> = new Map([
  [ZK.noNode, "no-node"],
  [ZK.nodeExists, "node-exists"],
  [ZK.badVersion, "bad-version"],
  [ZK.notEmpty, "not-empty"],
]);

/** An ensemble to open sessions at. Connects when something is asked. */
export class ZookeeperClient {
  /** Node under which everything lies: empty, or `/` and more. */
  readonly chroot: string;
  readonly access: Access;
  readonly #parts: SessionParts;
  readonly #plain = new PlainSession((timeoutMs, call) => this.open(timeoutMs, call));

  constructor(ensemble: Ensemble, options: ZookeeperClientOptions) {
    const runtime = options.runtime ?? platform();
    const credentials = options.credentials ?? ensemble.credentials;
    this.chroot = ensemble.chroot;
    this.access = options.access ?? (credentials === undefined ? "open" : "creator");
    this.#parts = {
      addresses: ensemble.addresses,
      random: runtime.random,
      wiring: { clock: runtime.clock, timers: runtime.timers, tls: options.tls, credentials },
    };
  }

  /** A session of about this time-out: the server keeps it within bounds of its own. */
  async open(timeoutMs: number, call: Call): Promise<ZookeeperSession> {
    const session = await openSession(this.#parts, timeoutMs, call);
    return new ZookeeperSession(session, this.access);
  }

  /** Runs `ask` on a session that all such calls share; twice, where the first had ended. */
  use<R>(call: Call, ask: (session: ZookeeperSession) => Promise<R>): Promise<R> {
    return this.#plain.use(call, ask);
  }

  /** Ends that session. Those that were opened are closed by whoever opened them. */
  close(): Promise<void> {
    return this.#plain.close();
  }
}

/** A change as a caller asks for it. */
export type WantedChange = Change extends infer C
  ? C extends { readonly access: Access }
    ? Omit<C, "access">
    : C
  : never;

/** One session. All paths are whole, chroot included. */
export class ZookeeperSession {
  readonly #session: Session;
  readonly #access: Access;

  constructor(session: Session, access: Access) {
    this.#session = session;
    this.#access = access;
  }

  get id(): string {
    return this.#session.id;
  }

  get owner(): bigint {
    return this.#session.owner;
  }

  /** As the server granted it, milliseconds. */
  get timeoutMs(): number {
    return this.#session.timeoutMs;
  }

  get isGone(): boolean {
    return this.#session.isGone;
  }

  get lastZxid(): bigint {
    return this.#session.lastZxid;
  }

  ping(call: Call): Promise<"alive" | "gone"> {
    return this.#session.ping(call);
  }

  /** See `Session.watch`. */
  watch(path: string, changed: () => void): () => void {
    return this.#session.watch(path, changed);
  }

  /** See `Session.close`. */
  close(patienceMs?: number): Promise<void> {
    return this.#session.close(patienceMs);
  }

  /**
   * Names of the children, or undefined where there is no node. `fresh`: as they are after this
   * call began; else as the asked server knows them, which may be a little old, but never older
   * than what this session has done or seen.
   */
  async children(path: string, call: Call, fresh: boolean): Promise<readonly string[] | undefined> {
    return (await this.#look(path, [getChildren(path)], call, fresh))[0];
  }

  /** One node, or undefined. `fresh` as in `children`. */
  async node(
    path: string,
    call: Call,
    how: { readonly fresh?: boolean; readonly watch?: boolean } = {},
  ): Promise<ZookeeperNode | undefined> {
    const query = getData(path, how.watch === true);
    return (await this.#look(path, [query], call, how.fresh === true))[0];
  }

  /** Several nodes, fresh, in one round trip. */
  async nodes(
    paths: readonly string[],
    call: Call,
  ): Promise<readonly (ZookeeperNode | undefined)[]> {
    const queries = paths.map((path) => getData(path, false));
    return paths.length === 0 ? [] : this.#look(paths[0]!, queries, call, true);
  }

  /**
   * Makes all changes or none. Not asked twice: a lost answer is thrown as such.
   *
   * @throws ConnectionLostError, SessionGoneError, ZookeeperReplyError for other refusals.
   */
  async commit(changes: readonly WantedChange[], call: Call): Promise<Committed> {
    return this.#settled(this.#session.request(this.#operation(changes), call));
  }

  /**
   * As `commit`, and in the same round trip how many children `path` has right after it: undefined
   * where there is no such node, or that answer was lost.
   */
  async commitAndCount(
    changes: readonly WantedChange[],
    path: string,
    call: Call,
  ): Promise<{
    readonly committed: Committed;
    readonly children: Promise<number | undefined>;
  }> {
    let children: Promise<number | undefined> = Promise.resolve(undefined);
    const asking = async (): Promise<readonly Changed[]> => {
      const operation = this.#operation(changes);
      const [done, folder] = await this.#session.requestThen(operation, getData(path, false), call);
      children = folder.then((node) => node?.stat.children);
      return done;
    };
    return { committed: await this.#settled(asking()), children };
  }

  #operation(changes: readonly WantedChange[]): Operation<readonly Changed[]> {
    const whole = changes.map((one): Change =>
      one.kind === "create" ? { ...one, access: this.#access } : one,
    );
    const [first] = whole;
    if (whole.length > 1 || first === undefined || first.kind === "check") return multi(whole);
    const one = change(first);
    return { ...one, read: (from) => [one.read(from)] };
  }

  async #settled(done: Promise<readonly Changed[]>): Promise<Committed> {
    try {
      return { ok: true, done: await done };
    } catch (error) {
      const why = error instanceof ZookeeperReplyError ? REFUSALS.get(error.code) : undefined;
      if (why === undefined) throw error;
      return { ok: false, why, place: (error as ZookeeperReplyError).place ?? 0 };
    }
  }

  async #look<R>(
    path: string,
    queries: readonly Operation<R>[],
    call: Call,
    fresh: boolean,
  ): Promise<readonly (R | undefined)[]> {
    const operations: Operation<R | void>[] = fresh ? [sync(path), ...queries] : [...queries];
    const settled = await this.#session.askAll<(R | void)[]>(operations, call);
    return settled.slice(fresh ? 1 : 0).map((one) => {
      if (one.status === "fulfilled") return one.value as R;
      if (isReply(one.reason, ZK.noNode)) return undefined;
      throw one.reason;
    });
  }
}

const OPTIONS = ["credentials", "access", "tls", "runtime"];

/**
 * A client for the servers that a URL or a list of hosts names. Nothing is sent before a session
 * is wanted.
 *
 * @throws TypeError for anything else, and for wrong options.
 */
export function zookeeperClient(
  hosts: string | readonly string[],
  options: ZookeeperClientOptions = {},
): ZookeeperClient {
  checkKnown(options, OPTIONS);
  const ensemble = parseEnsemble(hosts);
  const { credentials, access, tls } = options;
  if (access !== undefined) checkWord(access, "access", ["open", "creator"]);
  if (credentials !== undefined) {
    const isWhole = typeof credentials?.user === "string" && credentials.user !== "";
    if (!isWhole || typeof credentials.password !== "string") {
      throw new ArgumentTypeError("credentials", undefined, "an object of user and password");
    }
  }
  if (access === "creator" && credentials === undefined && ensemble.credentials === undefined) {
    throw new ArgumentTypeError("access", access, '"open" without credentials');
  }
  if (tls !== undefined && (typeof tls !== "object" || tls === null)) {
    throw new ArgumentTypeError("tls", tls, "options of node:tls");
  }
  if (tls !== undefined) checkTlsSettings("tls", tls);
  return new ZookeeperClient(ensemble, options);
}
