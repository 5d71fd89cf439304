/**
 * Idempotency keys in a SQL database.
 *
 * On servers a key gets its row first, in a transaction of its own; then the work's transaction
 * locks the row, and the lock is what says that somebody is at work: it ends with the transaction,
 * however that ends. In a SQLite file one transaction at a time can write, so there it is all one.
 */
import { checkResult, checkTerms, resultOf, type Keeping, type Terms } from "./arguments.js";
import type { Idempotency, IdempotencyCalls, Once } from "./contract.js";
import { checkInput, inProgress } from "./errors.js";
import { Patience, type PatienceRuntime } from "./patience.js";
import * as scripts from "./scripts.js";
import { afterwards, type Run, type Script, type When } from "../sql/script.js";
import type { Dialect } from "../sql/statement.js";
import type { SqlStore, Tx, Work } from "../sql/store.js";

/** What is needed beside the store. */
export interface IdempotencyParts extends Keeping {
  readonly runtime: PatienceRuntime;
}

type End =
  | { readonly kind: "told"; readonly once: Once<unknown> }
  | Exclude<scripts.Standing, { kind: "done" }>;

/** A runner whose answers come at once, or by promises. */
type Either = <R>(during: string, make: () => Script<R>) => R | Promise<R>;

const DURING = "run work under an idempotency key";

/** Idempotency keys in an opened store. */
export function sqlIdempotency<K extends Dialect>(
  store: SqlStore<K>,
  parts: IdempotencyParts,
): Idempotency<K> {
  const { dialect } = store;

  const told = ({ inputHash, result }: scripts.Recorded, terms: Terms): End => {
    checkInput(terms, inputHash, dialect);
    return { kind: "told", once: { result: resultOf(result), replayed: true } };
  };

  /** From the locked row on: the work, and its record. */
  const carryOut = (
    run: Either,
    standing: scripts.Standing,
    terms: Terms,
    work: () => unknown,
  ): End | Promise<End> => {
    if (standing.kind === "done") return told(standing.record, terms);
    if (standing.kind !== "ours") return standing;
    return afterwards(settled(work()), (returned) => {
      const result = checkResult(returned, parts);
      const recorded = run(DURING, () => scripts.finish(terms, result));
      return afterwards<void, End>(recorded, () => {
        return { kind: "told", once: { result: resultOf(result), replayed: false } };
      });
    }) as End | Promise<End>;
  };

  /** What work returned; a query builder is a promise, though no Promise. */
  const settled = (returned: unknown): unknown => {
    if (typeof (returned as PromiseLike<unknown> | null | undefined)?.then !== "function") {
      return returned;
    }
    const promise = Promise.resolve(returned);
    if (dialect !== "sqlite") return promise;
    void promise.catch(() => undefined);
    throw new TypeError("work on SQLite must be synchronous: it returned a promise");
  };

  const attempt = (terms: Terms, work: (tx: Tx<K>) => unknown): Promise<End> => {
    let hasBegun = false;
    const inside = (tx: Tx<K>): End | Promise<End> => {
      const run = store.within(tx) as Either;
      const lock = (): Script<scripts.Standing> =>
        dialect === "sqlite" ? scripts.lockOrInsert(terms.key, true) : scripts.tryLock(terms.key);
      return afterwards(run(DURING, lock), (standing) =>
        carryOut(run, standing, terms, () => {
          hasBegun = true;
          return work(tx);
        }),
      ) as End | Promise<End>;
    };
    return store.transaction<End>(DURING, inside as Work<K, End>, () => !hasBegun);
  };

  const once = async (terms: Terms, work: (tx: Tx<K>) => unknown): Promise<Once<unknown>> => {
    const patience = new Patience(parts.runtime, terms.waitMs);
    let hasRow = dialect === "sqlite";
    for (;;) {
      if (!hasRow) {
        const seen = await store.run(DURING, () => scripts.place(terms.key));
        if (seen.kind === "done") return ended(told(seen.record, terms));
        hasRow = true;
      }
      const end = await attempt(terms, work);
      if (end.kind === "told") return end.once;
      // Swept since.
      if (end.kind === "absent") hasRow = false;
      else if (!(await patience.rest())) throw inProgress(terms.key, dialect);
    }
  };

  return {
    once: async (key, options, work) => {
      const terms = checkTerms(key, options, work, ["wait"], parts);
      return (await once(terms, work)) as Once<never>;
    },
    within: (tx) => {
      const run = store.within(tx) as Run<When> as Either;
      return {
        once: (key: string, options: object, work: () => unknown) => {
          let terms: Terms;
          const standing = run(DURING, () => {
            terms = checkTerms(key, options, work, [], parts);
            return scripts.lockOrInsert(terms.key, false);
          });
          return afterwards(standing, (found) =>
            afterwards(carryOut(run, found, terms, work), ended),
          );
        },
      } as unknown as IdempotencyCalls<K>;
    },
    sweep: async () => {
      let all = 0;
      for (;;) {
        const swept = await store.run("sweep idempotency keys", () => scripts.sweep());
        if (swept === 0) return all;
        all += swept;
      }
    },
    close: () => store.close(),
  };
}

function ended(end: End): Once<unknown> {
  if (end.kind === "told") return end.once;
  throw new TypeError("a key was neither done nor locked");
}
