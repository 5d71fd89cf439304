/** The store behind the backend, once it is open: its connections, its id, and its parts. */
import type { AcquireRequest, Call, Grant, Held, Renewed } from "../../core/backend.js";
import { OutcomeUnknownError, UnavailableError, type TenureError } from "../../core/errors.js";
import { Batch } from "./batch.js";
import type { Channels, Commands, Connection } from "./client.js";
import { Epochs } from "./epochs.js";
import { Keys } from "./keys.js";
import { Leases } from "./leases.js";
import { within } from "./nodes.js";
import { lineScripts } from "./line-scripts.js";
import type { RedisBackendOptions } from "./options.js";
import { checkSettings } from "./options.js";
import { elements, ForeignKeyError, isForeign } from "./replies.js";
import { Replicas } from "./replicas.js";
import { STORE_ID } from "./scripts.js";
import { checkServer, readInfo } from "./server.js";
import { Waiters } from "./waiters.js";

const SCAN_COUNT = 500;

/** One store, seen by one process. */
export class Store {
  readonly leases: Leases;
  readonly waiters: Waiters;
  readonly #options: RedisBackendOptions;
  readonly #withinMs: number;
  readonly #commands: Commands;
  readonly #keys: Keys;
  readonly #epochs: Epochs;
  readonly #wanted: number;
  readonly #replicas: Replicas;
  readonly #connections: Set<Connection>;
  readonly #extra = new Map<string, Promise<Connection>>();
  #storeId = "";
  #closed = false;

  private constructor(
    options: RedisBackendOptions,
    withinMs: number,
    main: Connection,
    renewals: Connection,
  ) {
    const { prefix, replicas } = checkSettings(options);
    const { runtime } = options;
    this.#options = options;
    this.#withinMs = withinMs;
    this.#connections = new Set([main, renewals]);
    const { commands } = main;
    this.#commands = commands;
    this.#wanted = replicas;
    const keys = (this.#keys = new Keys(prefix));
    const epochs = (this.#epochs = new Epochs(commands, runtime));
    const line = lineScripts(commands.isCluster);
    this.leases = new Leases({
      commands,
      renewals: renewals.commands,
      batch: new Batch(commands, runtime.timers),
      keys,
      line,
      epochs,
      runtime,
      explain: (error, during, lock) => this.explain(error, during, lock),
    });
    this.waiters = new Waiters({
      commands,
      renewals: renewals.commands,
      channels: async () => (await this.#connection("channels")).channels,
      dropChannels: (channels) => this.#drop(channels),
      keys,
      line,
      epochs,
      runtime,
      process: runtime.random.id(),
      leave: (name, holder) => this.leases.endInLine(name, holder, undefined, "offer"),
    });
    const connection = (): Promise<Connection> => this.#connection("replicas");
    this.#replicas = new Replicas(replicas, connection, keys, runtime.timers);
  }

  /** Connects, checks the server, and finds the store's id or makes one. */
  static async open(options: RedisBackendOptions, withinMs: number): Promise<Store> {
    const main = await options.connect(withinMs);
    const renewals = await options.connect(withinMs).catch((error: unknown) => {
      main.close();
      throw error;
    });
    const store = new Store(options, withinMs, main, renewals);
    try {
      await store.run("connect", undefined, () =>
        Promise.all([main.connected, renewals.connected]),
      );
      await store.run("look at the server", undefined, () => store.#check());
      await store.run("find the id of the store", undefined, () => store.#identify());
      return store;
    } catch (error) {
      store.close();
      throw error;
    }
  }

  get storeId(): string {
    return this.#storeId;
  }

  /** Runs a step; what its client library throws comes out as one of our errors. */
  async run<R>(during: string, lock: string | undefined, step: () => Promise<R>): Promise<R> {
    try {
      return await step();
    } catch (error) {
      throw this.explain(error, during, lock);
    }
  }

  explain(error: unknown, during: string, lock?: string): TenureError {
    const text = error instanceof Error ? error.message : String(error);
    if (lock !== undefined && isForeign(text)) {
      return new ForeignKeyError(this.#keys.lease(lock), lock, error);
    }
    this.#epochs.doubt();
    const about = { during, backend: "redis" };
    return this.#options.faults.explain(error, lock === undefined ? about : { ...about, lock });
  }

  acquire(
    request: AcquireRequest,
    call: Call,
  ): Promise<{ readonly grant: Grant } | { readonly held: Held }> {
    const acquiring = this.leases.acquire(request);
    if (this.#wanted === 0) return acquiring;
    return acquiring.then(async (answer) => {
      if ("grant" in answer) await this.#confirmCopies(answer.grant, call);
      return answer;
    });
  }

  async renew(grants: readonly Grant[], call: Call): Promise<readonly Renewed[]> {
    const offers = grants.map(({ holder }) => this.waiters.confirm(holder));
    const outcomes = await this.leases.renew(grants, call);
    if (this.#wanted === 0 || !offers.includes(true)) return outcomes;
    return Promise.all(
      outcomes.map(async (outcome, i) => {
        if (outcome !== "renewed" || offers[i] !== true) return outcome;
        const isGiven = await this.#confirmCopies(grants[i]!, call).catch(() => "given-up");
        return isGiven === "given-up" ? ({ lost: "absent" } as const) : outcome;
      }),
    );
  }

  /** Live leases of a prefix, by walking over the keys of every primary. */
  async *list(
    prefix: string,
    call: Call,
  ): AsyncGenerator<Held & { readonly name: string }, void, undefined> {
    const nodes = await this.#inTime(call, () => this.#commands.primaries());
    const seen = new Set<string>();
    for (const node of nodes) {
      let cursor = "0";
      do {
        const args = ["SCAN", cursor, "MATCH", this.#keys.pattern(prefix)];
        const page = await this.#inTime(call, () =>
          node.send([...args, "COUNT", String(SCAN_COUNT), "TYPE", "hash"]),
        );
        cursor = String(elements(page)[0]);
        const names = elements(elements(page)[1])
          .map((key) => this.#keys.nameOf(String(key)))
          .filter((name) => name?.startsWith(prefix) === true && !seen.has(name)) as string[];
        for (const name of names) seen.add(name);
        yield* await this.#lookAt(names, call);
      } while (cursor !== "0");
    }
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.waiters.close();
    for (const connection of this.#connections) connection.close();
  }

  async #lookAt(
    names: readonly string[],
    call: Call,
  ): Promise<readonly (Held & { readonly name: string })[]> {
    if (names.length === 0) return [];
    const all = await this.#inTime(call, () => this.leases.inspect(names, true));
    return all.flatMap((held, i) => (held === null ? [] : [{ name: names[i]!, ...held }]));
  }

  /** A step of a listing, which nobody else limits in time. */
  async #inTime<R>(call: Call, step: () => Promise<R>): Promise<R> {
    const { timers } = this.#options.runtime;
    const done = await this.run("list leases", undefined, () =>
      within(timers, call.timeoutMs, step().then((value) => ({ value }))),
    );
    if (done !== undefined) return done.value;
    throw new UnavailableError(`Redis did not answer within ${call.timeoutMs} ms`, {
      backend: "redis",
    });
  }

  /** @throws UnavailableError when too few replicas have the grant, which was given up. */
  async #confirmCopies(grant: Grant, call: Call): Promise<void> {
    const { name, holder, token } = grant;
    const about = { lock: name, backend: "redis" };
    let copies = 0;
    try {
      copies = await this.run("replicate a grant", name, () =>
        this.#replicas.of(grant, call.timeoutMs),
      );
      if (copies >= this.#wanted) return;
    } finally {
      if (copies < this.#wanted) {
        await this.leases.endInLine(name, holder, token, "any").catch((error: unknown) => {
          const text = `the grant of ${JSON.stringify(name)} was too little replicated`;
          throw new OutcomeUnknownError(`${text}, and could not be given up`, {
            ...about,
            cause: error,
          });
        });
      }
    }
    throw new UnavailableError(
      `the grant of ${JSON.stringify(name)} reached ${copies} of the ${this.#wanted} replicas ` +
        "that it has to reach, and was given up",
      about,
    );
  }

  async #check(): Promise<void> {
    const use = { isCluster: this.#commands.isCluster, fair: checkSettings(this.#options).fair };
    const { events } = this.#options.runtime;
    const warn = (message: string): void =>
      events.publish({ type: "warning", name: "redis", backend: "redis", message });
    const warnings = new Set<string>();
    for (const node of await this.#commands.primaries()) {
      const info = await readInfo(node).catch((error: unknown) => {
        // A user without the right to ask can still keep leases.
        if (error instanceof Error && /^NOPERM|unknown command/i.test(error.message)) {
          return undefined;
        }
        throw error;
      });
      if (info === undefined) {
        this.#epochs.isSecret();
        warnings.add(
          "the server does not answer INFO to this user: its version and eviction policy were " +
            "not checked, and grants do not tell the store's epoch",
        );
        continue;
      }
      for (const warning of checkServer(info, use)) warnings.add(warning);
    }
    for (const warning of warnings) warn(warning);
    // The first grant need not wait for it.
    await this.#epochs.of(this.#keys.store);
  }

  async #identify(): Promise<void> {
    const { storeId, runtime } = this.#options;
    if (storeId !== undefined) {
      this.#storeId = storeId;
      return;
    }
    const reply = await this.#commands.evaluate(
      STORE_ID,
      [this.#keys.store],
      [runtime.random.id()],
    );
    this.#storeId = String(reply);
  }

  /** A further connection, opened when it is first needed, and again after that has failed. */
  #connection(purpose: "channels" | "replicas"): Promise<Connection> {
    let opening = this.#extra.get(purpose);
    if (opening === undefined) {
      const mine = (opening = this.#open());
      this.#extra.set(purpose, mine);
      mine.catch(() => {
        if (this.#extra.get(purpose) === mine) this.#extra.delete(purpose);
      });
    }
    return opening;
  }

  #drop(seen: Channels): void {
    const connection = [...this.#connections].find(({ channels }) => channels === seen);
    // Ended already: the one that was opened in its place stays.
    if (connection === undefined) return;
    this.#extra.delete("channels");
    this.#end(connection);
  }

  #end(connection: Connection): void {
    this.#connections.delete(connection);
    connection.close();
  }

  async #open(): Promise<Connection> {
    const connection = await this.#options.connect(this.#withinMs);
    this.#connections.add(connection);
    if (this.#closed) connection.close();
    try {
      const { timers } = this.#options.runtime;
      const isThere = connection.connected.then(() => true);
      // A caller's settings may know no bound, and all who need it wait for the same one.
      if ((await within(timers, this.#withinMs, isThere)) !== undefined) return connection;
      const text = `a further connection to Redis was not there within ${this.#withinMs} ms`;
      throw new UnavailableError(text, { backend: "redis" });
    } catch (error) {
      // It would go on trying, and stay beside the one that is opened in its place.
      this.#end(connection);
      throw error;
    }
  }
}
