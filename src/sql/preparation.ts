/** Opening a store: are the pattern's tables there, and are they the ones that we know? */
import { UnavailableError } from "../core/errors.js";
import type { Run } from "./script.js";
import type { Dialect } from "./statement.js";
import { findTables, makeTables, type FoundTables, type TablePlan } from "./tables.js";

/** A store whose tables were not looked at yet. */
export interface UnpreparedStore {
  readonly dialect: Dialect;
  storeId: string;
  readonly run: Run<"promised">;
  /** As `run`, for statements that make tables, with which MySQL commits what was before them. */
  readonly setUp: Run<"promised">;
  /** Whether a failure says that the user may not make tables. */
  isForbidden(error: unknown): boolean;
  /** Reads the store's clock where it has to be anchored. */
  readonly startClock?: () => Promise<void>;
}

/** What to do about missing tables. */
export interface Preparation {
  readonly migrate: boolean;
  newId(): string;
}

/**
 * Makes what is missing, unless told otherwise. Any number of processes may do this at once.
 *
 * @throws UnavailableError for missing tables with `migrate: false`, tables of a newer version, a
 *   missing permission.
 */
export async function prepare(
  store: UnpreparedStore,
  plan: TablePlan,
  preparation: Preparation,
): Promise<void> {
  const find = (): Promise<FoundTables | null> =>
    store.run(`look for the tables of ${plan.pattern}`, () => findTables(plan));
  let found = await find();
  if (found === null || found.version < plan.version) {
    if (!preparation.migrate)
      throw refused(store, plan, "are missing or old, and migrate is false");
    await make(store, plan, preparation.newId());
    found = await find();
  }
  if (found === null) throw refused(store, plan, "are missing");
  if (found.version > plan.version) {
    throw refused(
      store,
      plan,
      `have version ${found.version}, and this release of Tenure knows ${plan.version}: use a ` +
        "newer release, or another schema",
    );
  }
  store.storeId = found.storeId;
  await store.startClock?.();
}

async function make(store: UnpreparedStore, plan: TablePlan, id: string): Promise<void> {
  try {
    await store.setUp(`make the tables of ${plan.pattern}`, () =>
      makeTables(plan, store.dialect, id),
    );
  } catch (error) {
    if (!store.isForbidden((error as { cause?: unknown }).cause)) throw error;
    throw refused(store, plan, "are missing, and the user has no permission to make them", error);
  }
}

function refused(
  { dialect }: UnpreparedStore,
  { pattern }: TablePlan,
  what: string,
  cause?: unknown,
): UnavailableError {
  const hint = `\`tenure migrate --print --pattern ${pattern} --backend ${dialect}\` shows them`;
  return new UnavailableError(`the tables of ${pattern} ${what} (${hint})`, {
    backend: dialect,
    retryable: false,
    ...(cause === undefined ? {} : { cause }),
  });
}
