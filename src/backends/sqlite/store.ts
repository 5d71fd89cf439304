/** One open file: its parts put together, and the calls that need more than one of them. */
import type { AcquireRequest, Answer, Call, Grant, Held, Released, ReleaseRequest } from "../../core/backend.js";
import { UnavailableError } from "../../core/errors.js";
import { Writes } from "./busy.js";
import { StoreFiles } from "./files.js";
import { Leases, type HeldBy } from "./leases.js";
import { Ledger } from "./ledger.js";
import { Peers, removeSocket, type Peer } from "./peers.js";
import { Queue, type Run } from "./queue.js";
import { Sessions } from "./sessions.js";
import type { SqliteBackendOptions } from "./options.js";
import { join, setPragmas, type Joined } from "./setup.js";
import { prepareStatements, type Statements } from "./statements.js";
import { CEILING_STEP, readStore, Tokens } from "./tokens.js";
import { transact } from "./transaction.js";
import { Upkeep } from "./upkeep.js";

/** Longest that work nobody waits for is tried, milliseconds. */
const BACKGROUND_MS = 5_000;
/** Longest that closing waits for the write lock, milliseconds. */
const CLOSE_MS = 1_000;

/** Most leases released in one transaction. */
const MOST_RELEASED = 500;

type Acquired = { readonly grant: Grant } | { readonly held: Held };

/** An open file. */
export class Store {
  readonly storeId: string;
  readonly files: StoreFiles;
  readonly leases: Leases;
  readonly queue: Queue;
  /** Runs a try that needs the write lock. */
  readonly run: Run;
  /** Runs a try that only reads; it does not stand behind those that write. */
  readonly read: Run;
  readonly #options: SqliteBackendOptions;
  readonly #ledger: Ledger;
  readonly #sessions: Sessions;
  readonly #peers: Peers;
  readonly #upkeep: Upkeep;
  readonly #writes: Writes;
  /** Apart from the calls, since a call may be waiting for it. */
  readonly #background: Writes;
  readonly #tasks = new Set<Promise<void>>();
  #raising: Promise<void> | undefined;
  #closing = false;

  /**
   * Sets the file up and enters this process.
   *
   * @throws GuaranteeError or UnavailableError when the file cannot serve.
   */
  static async open(options: SqliteBackendOptions, call: Call): Promise<Store> {
    const { database, faults, machine, runtime } = options;
    const writes = new Writes(runtime, {
      isBusy: (error) => faults.isBusy(error),
      explain: (error, during) => faults.explain(error, during),
      raiseCeiling: () => Promise.reject(new Error("no token is needed to open a file")),
    });
    let store: Store | undefined;
    const peers = new Peers(
      {
        folder: `${database.file}-wake`,
        tempFolder: machine.tempFolder,
        refusalIsProof: machine.refusalIsProof,
        name: runtime.random.id(),
        timers: runtime.timers,
      },
      {
        woken: (holder) => store?.queue.woken(holder),
        ended: (peer) => store?.bury(peer),
      },
    );
    const address = (await peers.listen()) ?? null;
    try {
      await writes.run("open the SQLite database", call, () => setPragmas(database));
      const joining = {
        machine,
        wallUs: BigInt(Math.floor(runtime.clock.wallMs() * 1_000)),
        storeId: options.storeId ?? runtime.random.id(),
        address,
      };
      const joined = await writes.run("set up the SQLite database", call, () => {
        const { begin, commit, rollback } = plainTransaction(database);
        return transact(
          database, { begin, commit, rollback }, () => join(database, joining), () => undefined,
        );
      });
      const compile = () => prepareStatements(database);
      const statements = await writes.run("open the SQLite database", call, compile);
      store = new Store(options, peers, statements, joined);
      await store.#start(joined);
      return store;
    } catch (error) {
      await peers.close();
      throw error;
    }
  }

  private constructor(
    options: SqliteBackendOptions,
    peers: Peers,
    statements: Statements,
    joined: Joined,
  ) {
    const { database, faults, machine, runtime } = options;
    const again = {
      isBusy: (error: unknown) => faults.isBusy(error),
      explain: (error: unknown, during: string) => faults.explain(error, during),
      raiseCeiling: () => this.#raiseCeiling(),
    };
    this.#options = options;
    this.#peers = peers;
    this.#writes = new Writes(runtime, again);
    this.#background = new Writes(runtime, again);
    const reads = new Writes(runtime, again);
    this.read = (during, call, attempt) => reads.run(during, call, attempt);
    this.run = (during, call, attempt) => this.#writes.run(during, call, attempt);
    this.storeId = joined.storeId;
    this.files = new StoreFiles(database.file, () => runtime.clock.monotonicMs());
    this.#upkeep = new Upkeep({ flush: () => this.files.flush() });
    const { session } = joined;
    this.#ledger = new Ledger({
      db: database,
      statements,
      tokens: new Tokens(statements, session, () => this.#later(() => this.#raiseCeiling())),
      machine,
      session,
      endWithProcess: options.endWithProcess ?? true,
      offered: (offer) => this.queue.offered(offer),
      committed: (rows) => this.#upkeep.committed(rows),
    });
    this.#upkeep.start(this.#ledger);
    this.#sessions = new Sessions(this.#ledger);
    this.leases = new Leases(this.#ledger);
    this.queue = new Queue({
      ledger: this.#ledger,
      peers,
      timers: runtime.timers,
      run: this.run,
      lookLater: (during, attempt) => this.#later(() => this.#inBackground(during, attempt)),
    });
  }

  /** Acquires; where the holder's process has certainly ended, its lease is ended first. */
  acquire(request: AcquireRequest, call: Call): Answer<Acquired> {
    this.files.check();
    const attempt = () => this.leases.acquire(request);
    const answer = this.run("acquire a lease", call, attempt);
    return "grant" in answer ? answer : this.#unlessDead(answer, attempt, call);
  }

  async #unlessDead(
    first: Answer<{ readonly grant: Grant } | HeldBy>,
    attempt: () => { readonly grant: Grant } | HeldBy,
    call: Call,
  ): Promise<Acquired> {
    const answer = await first;
    if ("grant" in answer) return answer;
    const { held, session } = answer;
    if (session === 0n || session === this.#ledger.session) return { held };
    const peer = await this.read("look at a session", call, () => this.#peerOf(session));
    if (peer === undefined || !(await this.#peers.hasEnded(peer))) return { held };
    await this.#buryNow(peer, call);
    const second = await this.run("acquire a lease", call, attempt);
    return "grant" in second ? second : { held: second.held };
  }

  /** Releases, in several transactions where there are many, so that nothing is blocked long. */
  async release(requests: readonly ReleaseRequest[], call: Call): Promise<readonly Released[]> {
    const answers: Released[] = [];
    for (let from = 0; from < requests.length; from += MOST_RELEASED) {
      if (from > 0) await new Promise<void>((go) => this.#options.runtime.timers.soon(go));
      const some = requests.slice(from, from + MOST_RELEASED);
      answers.push(...(await this.run("release", call, () => this.leases.release(some))));
    }
    return answers;
  }

  /** Ends everything of a process that has certainly ended. */
  bury(peer: Peer): void {
    this.#later(() => this.#buryNow(peer, backgroundCall(BACKGROUND_MS)));
  }

  /** Leaves the file in order. Leases stay and end by their time. */
  async close(): Promise<void> {
    this.#closing = true;
    this.queue.close();
    const gone = new UnavailableError("the sqlite backend was closed", {
      backend: "sqlite",
      retryable: false,
    });
    this.#writes.close(gone);
    await Promise.all([...this.#tasks]);
    await this.#upkeep.close();
    // A session that cannot be ended now is harmless: its socket is gone, its leases run out.
    try {
      await this.#background.run("close", backgroundCall(CLOSE_MS), () => this.#sessions.leave());
    } catch {
      // See above.
    }
    await this.#peers.close();
    // Closing moves the log into the database: the waiting for the disk is done beforehand.
    await this.files.flush().catch(() => undefined);
    try {
      this.#options.database.close();
    } finally {
      await this.files.close();
    }
  }

  async #start({ ceiling, isNew }: Joined): Promise<void> {
    if (isNew) await this.files.flushFolder();
    if (ceiling !== undefined) await this.#publishCeiling(ceiling);
    this.#later(() => this.#lookForDead());
  }

  /** Ends what processes left that were killed while nobody watched. */
  async #lookForDead(): Promise<void> {
    const known = new Set<string>();
    for (const { session, address } of this.#sessions.others()) {
      if (address === null || this.#closing) continue;
      known.add(address);
      const peer = { session, address };
      if (!(await this.#peers.hasEnded(peer))) continue;
      await this.#buryNow(peer, backgroundCall(BACKGROUND_MS));
    }
    if (!this.#closing) await this.#peers.tidy(known);
  }

  #peerOf(session: bigint): Peer | undefined {
    const address = this.#sessions.find(session)?.address ?? null;
    return address === null ? undefined : { session, address };
  }

  async #buryNow(peer: Peer, call: Call): Promise<void> {
    const attempt = () => this.#sessions.bury(peer.session);
    while (!(await this.#background.run("end the leases of a dead process", call, attempt)));
    await removeSocket(peer.address);
  }

  /** A ceiling is durable before it is published: see `tokens.ts`. */
  #raiseCeiling(): Promise<void> {
    this.#raising ??= this.#raise().finally(() => (this.#raising = undefined));
    return this.#raising;
  }

  async #raise(): Promise<void> {
    const { statements } = this.#ledger;
    let ceiling = 0n;
    await this.#inBackground("raise the ceiling of tokens", () => {
      this.#ledger.transact(() => {
        const store = readStore(statements);
        ceiling = (store.next > store.ceiling ? store.next : store.ceiling) + CEILING_STEP;
        statements.setPending.run(ceiling);
      });
    });
    await this.#publishCeiling(ceiling);
  }

  async #publishCeiling(ceiling: bigint): Promise<void> {
    try {
      await this.files.flush();
    } catch (error) {
      throw this.#options.faults.explain(error, "flush the SQLite database");
    }
    const { setCeiling } = this.#ledger.statements;
    await this.#inBackground("raise the ceiling of tokens", () => {
      setCeiling.run(ceiling);
    });
  }

  async #inBackground(during: string, attempt: () => void): Promise<void> {
    await this.#background.run(during, backgroundCall(BACKGROUND_MS), attempt);
  }

  /** Work that nobody waits for; what fails is done by a later look, or by another process. */
  #later(work: () => Promise<void>): void {
    if (this.#closing) return;
    const task = work()
      .catch(() => undefined)
      .finally(() => this.#tasks.delete(task));
    this.#tasks.add(task);
  }
}

function backgroundCall(timeoutMs: number): Call {
  return {
    timeoutMs,
    get signal() {
      return new AbortController().signal;
    },
  };
}

function plainTransaction(db: SqliteBackendOptions["database"]) {
  return {
    begin: db.prepare("BEGIN IMMEDIATE"),
    commit: db.prepare("COMMIT"),
    rollback: db.prepare("ROLLBACK"),
  };
}
