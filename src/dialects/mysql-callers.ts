/** Whether a caller's transaction on MySQL goes on, asked by statements in it. */

/** Runs one statement in the caller's transaction. */
type Run = (text: string, values: unknown[]) => PromiseLike<unknown>;

/** Flags of the server's answer: https://dev.mysql.com/doc/dev/mysql-server/latest/mysql__com_8h.html */
const IN_TRANSACTION = 1;
const AUTOCOMMIT = 2;

/** Changes nothing, and takes nothing away; its answer has the flags, where it is handed on. */
const LOOK = "DO 0";
/** RELEASE: "SAVEPOINT … does not exist", where it ended with the statement that made it. */
const NO_SUCH_SAVEPOINT = 1305;

/** The flags in an answer of `mysql2`; undefined in rows, and in the answers of other libraries. */
function statusOf(answer: unknown): number | undefined {
  const header: unknown = Array.isArray(answer) ? answer[0] : answer;
  const { serverStatus } = (header ?? {}) as { serverStatus?: unknown };
  return typeof serverStatus === "number" ? serverStatus : undefined;
}

/** Whether the next statement is part of a transaction, as an answer tells; rows do not. */
export function isInside(answer: unknown): boolean {
  const status = statusOf(answer);
  return status === undefined || (status & IN_TRANSACTION) !== 0 || (status & AUTOCOMMIT) === 0;
}

/** Errors of query builders carry the server's inside. */
function hasNumber(error: unknown, number: number): boolean {
  if (!(error instanceof Error)) return false;
  return (error as { errno?: unknown }).errno === number || hasNumber(error.cause, number);
}

/** What is known of a connection, or of a function that runs statements on one. */
interface Lane {
  /** The savepoints of watches, in order. RELEASE of one removes those behind it. */
  readonly watched: string[];
  last: Promise<unknown>;
  /** Whether its answers have no flags. */
  isSilent: boolean;
}

const lanes = new WeakMap<object, Lane>();

function laneOf(given: object): Lane {
  const known = lanes.get(given);
  if (known !== undefined) return known;
  const lane = { watched: [], last: Promise.resolve(), isSilent: false };
  lanes.set(given, lane);
  return lane;
}

/** One after the other: two that ask at once would remove each other's savepoints. */
function inTurn<R>(lane: Lane, step: () => Promise<R>): Promise<R> {
  const turn = lane.last.then(step, step);
  lane.last = turn;
  return turn;
}

async function set(run: Run, savepoint: string): Promise<void> {
  await run(`SAVEPOINT ${savepoint}`, []);
}

/** Removes a savepoint, and those behind it; whether it was there. */
async function release(run: Run, savepoint: string): Promise<boolean> {
  try {
    await run(`RELEASE SAVEPOINT ${savepoint}`, []);
    return true;
  } catch (error) {
    if (!hasNumber(error, NO_SUCH_SAVEPOINT)) throw error;
    return false;
  }
}

/**
 * Whether a savepoint outlasts its statement, which it does in a transaction; undefined where none
 * can be set. Many libraries send only what can be prepared, and a savepoint cannot, on MySQL; how
 * they say so differs.
 */
async function keepsSavepoint(run: Run, savepoint: string): Promise<boolean | undefined> {
  try {
    await set(run, savepoint);
  } catch {
    // Where it is the connection that failed, the next statement says so.
    return undefined;
  }
  return await release(run, savepoint);
}

/** Whether a function runs statements in a transaction; true where it cannot be asked. */
export async function runsInside(run: Run): Promise<boolean> {
  const lane = laneOf(run);
  if (!lane.isSilent) {
    const answer = await run(LOOK, []);
    if (statusOf(answer) !== undefined) return isInside(answer);
    lane.isSilent = true;
  }
  return (await inTurn(lane, () => keepsSavepoint(run, "tenure_within"))) ?? true;
}

/** A transaction that is watched from before a piece of work to behind it. */
export interface Watched {
  /** Whether it goes on. To be asked once. */
  goesOn(): Promise<boolean>;
  /** Not to be asked any more. */
  forget(): void;
}

let count = 0;

/**
 * Watches the transaction of a connection, or of a function; null outside one.
 *
 * By the flags of answers, where they are handed on. Elsewhere, and where autocommit is off and a
 * new transaction begins by itself, by a savepoint, whose end takes along those set behind it.
 */
export async function watch(run: Run, given: object): Promise<Watched | null> {
  const status = statusOf(await run(LOOK, []));
  if (status !== undefined && (status & AUTOCOMMIT) !== 0) {
    if ((status & IN_TRANSACTION) === 0) return null;
    const goesOn = async (): Promise<boolean> => {
      const now = statusOf(await run(LOOK, []));
      return now === undefined || (now & IN_TRANSACTION) !== 0;
    };
    return { goesOn, forget: () => undefined };
  }
  const lane = laneOf(given);
  const savepoint = `tenure_fence_${(count += 1)}`;
  const keeps = await inTurn(lane, async () => {
    const kept = await keepsSavepoint(run, savepoint);
    if (kept !== true) return kept;
    await set(run, savepoint);
    lane.watched.push(savepoint);
    return true;
  });
  if (keeps === false) return null;
  if (keeps === undefined) return { goesOn: async () => true, forget: () => undefined };
  const forget = (): number => {
    const at = lane.watched.indexOf(savepoint);
    if (at >= 0) lane.watched.splice(at, 1);
    return at;
  };
  const goesOn = (): Promise<boolean> =>
    inTurn(lane, async () => {
      const at = forget();
      const behind = lane.watched.slice(at);
      if (!(await release(run, savepoint))) return false;
      for (const other of behind) await set(run, other);
      return true;
    });
  return { goesOn, forget };
}
