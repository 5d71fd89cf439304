/**
 * Leases in a SQLite file, for all processes of one machine: no server to run.
 *
 * - Atomicity: one SQL statement, or a transaction that has the write lock from its start.
 * - Token: one counter per file, below a ceiling that is on the disk; see `tokens.ts`.
 * - Expiry: the monotonic clock that all processes of one boot share; a boot ends all leases. While
 *   the machine is suspended it stands still: the store lets go late, never early.
 * - Waiting: a queue in order of arrival, woken by a socket per process: `queue.ts`, `peers.ts`.
 * - Failover: none. A power failure can lose the last grants, with all their holders; no token
 *   comes twice.
 */
import type { Backend, Call, Grant, Held, QueueWaiting } from "../../core/backend.js";
import { UnavailableError } from "../../core/errors.js";
import type { Manifest } from "../../core/manifest.js";
import type { FencingToken } from "../../core/token.js";
import type { Value } from "./client.js";
import { checkOptions, type SqliteBackendOptions } from "./options.js";
import { TOUCH_EVERY_MS } from "./queue.js";
import { HELD_CHECK_SQL } from "./schema.js";
import { Store } from "./store.js";

/** A held check: a query to run in a transaction of the same file. */
export interface SqliteProof {
  /** Absolute path of the file. */
  readonly file: string;
  /** Answers one row while the store still has this grant. */
  readonly sql: string;
  readonly values: readonly Value[];
}

/** A backend on SQLite, with its proof typed. */
export interface SqliteBackend extends Backend {
  /**
   * Not tested: whether the time is over. An expired grant passes as long as nobody else was
   * granted the name, which is what a write in the same file needs.
   */
  proof(grant: Grant): SqliteProof;
}

const ONE_YEAR_MS = 365 * 24 * 3_600_000;

const manifest: Manifest<FencingToken> = {
  backend: "sqlite",
  tokens: "durable",
  expiryClock: "machine",
  deadline: "bound",
  waiting: "queue",
  fair: true,
  heldCheck: true,
  minTtlMs: 10,
  maxTtlMs: ONE_YEAR_MS,
  ttlScope: "lease",
  // About 4 ms of one turn of the event loop.
  renewBatch: 1_000,
};

/**
 * A backend on a SQLite file.
 *
 * @throws TypeError or RangeError for wrong options.
 */
export function sqliteBackend(options: SqliteBackendOptions): SqliteBackend {
  checkOptions(options);
  const { database, faults } = options;
  const file = database.file;
  let store: Store | undefined;
  let closed = false;

  const opened = (): Store => {
    if (store !== undefined && !closed) return store;
    const what = closed ? "closed" : "not open yet";
    throw new UnavailableError(`the sqlite backend of ${file} is ${what}`, {
      backend: "sqlite",
      retryable: false,
    });
  };

  return {
    manifest,
    get storeId() {
      return options.storeId ?? opened().storeId;
    },
    async open(call) {
      if (closed) opened();
      if (store !== undefined) return;
      try {
        store = await Store.open(options, call);
      } catch (error) {
        // No file to try again with: a caller who has only the error could not close it.
        const { retryable } = (error ?? {}) as { readonly retryable?: unknown };
        if (retryable === false && !closed) {
          closed = true;
          database.close();
        }
        throw error;
      }
    },
    acquire: (request, call) => opened().acquire(request, call),
    renew(grants, call) {
      const { leases, files, run } = opened();
      if (!files.isInPlace(true)) return grants.map(() => ({ lost: "absent" }) as const);
      return run("renew leases", call, () => leases.renew(grants));
    },
    release(requests, call) {
      const { leases, files, run } = opened();
      if (!files.isInPlace()) return requests.map(() => "not-held" as const);
      if (requests.length > 1) return opened().release(requests, call);
      return run("release a lease", call, () => leases.release(requests));
    },
    async break(name, token, call) {
      const { leases, run } = ready(opened());
      return run("break a lease", call, () => leases.break(name, token));
    },
    async inspect(name, call) {
      const { leases, read } = ready(opened());
      return read("look at a lease", call, () => leases.inspect(name));
    },
    list: (prefix, call) => list(() => ready(opened()), prefix, call),
    waiting: waitingOn(() => ready(opened())),
    proof: ({ name, holder, token }) => ({
      file,
      sql: HELD_CHECK_SQL,
      values: [name, holder, token],
    }),
    async close() {
      if (closed) return;
      closed = true;
      if (store !== undefined) await store.close();
      else {
        try {
          database.close();
        } catch (error) {
          throw faults.explain(error, "close the SQLite database");
        }
      }
    },
  };
}

function ready(store: Store): Store {
  store.files.check();
  return store;
}

async function* list(
  opened: () => Store,
  prefix: string,
  call: Call,
): AsyncIterable<Held & { readonly name: string }> {
  // Names with the prefix stand together in the index, right after the prefix itself.
  let after: string | undefined = prefix;
  const { leases, read } = opened();
  const own = await read("look at a lease", call, () => leases.inspect(prefix));
  if (own !== null) yield { name: prefix, ...own };
  while (after !== undefined) {
    const from: string = after;
    const page = await read("list leases", call, () => opened().leases.page(from, prefix));
    yield* page.leases;
    after = page.last;
  }
}

function waitingOn(opened: () => Store): QueueWaiting {
  return {
    kind: "queue",
    touchEveryMs: TOUCH_EVERY_MS,
    enqueue: async (request, call) => opened().queue.enqueue(request, call),
    touch: async (tickets, call) => opened().queue.touch(tickets, call),
  };
}
