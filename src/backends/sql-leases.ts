/** The operations on leases that are rows of an SQL server's table. */
import type {
  AcquireRequest,
  Backend,
  Call,
  Grant,
  Held,
  Released,
  ReleaseRequest,
  Renewed,
} from "../core/backend.js";
import { OutcomeUnknownError } from "../core/errors.js";
import type { Manifest } from "../core/manifest.js";
import type { FencingToken } from "../core/token.js";
import type { Row } from "./sql-client.js";
import type { Doubts } from "./sql-doubts.js";

/** Tries before a name is called contended. */
const TRIES = 3;
/** Renewals tried at once for rows that somebody has locked, before the core is told. */
const RENEWAL_TRIES = 3;
const ONE_YEAR_MS = 365 * 24 * 3_600_000;

/** What all of these stores promise; what differs is said beside it. */
export const SQL_MANIFEST: Omit<Manifest<FencingToken>, "backend" | "waiting"> = {
  tokens: "durable",
  expiryClock: "server",
  deadline: "bound",
  fair: false,
  heldCheck: true,
  minTtlMs: 50,
  maxTtlMs: ONE_YEAR_MS,
  ttlScope: "lease",
  renewBatch: 1_000,
};

/** Which rows to end: of any holder or token where none is given. */
export interface Ending {
  readonly name: string;
  readonly holder?: string;
  readonly token?: bigint;
}

/** A lease by its name. */
export type NamedLease = Held & { readonly name: string };

/** The statements of one dialect. They reject with errors of Tenure. */
export interface LeaseRows {
  /**
   * One try. `overtaken`: others were faster between two looks; `locked`: a transaction that checks
   * the old lease does not let go of it.
   */
  acquire(
    request: AcquireRequest,
    call: Call,
  ): Promise<{ readonly grant: Grant } | { readonly held: Held } | "overtaken" | "locked">;
  /** How long a try whose answer was lost may go on in the server, milliseconds. */
  lingersMs(call: Call): number;
  /** A row for each place in `grants`: `renewed`, `live`, `mine`, and who holds. */
  renew(grants: readonly Grant[], call: Call): Promise<ReadonlyMap<number, Row>>;
  /** For each place where a row was found and ended: whether it was live. */
  end(
    endings: readonly Ending[],
    call: Call,
    during: string,
  ): Promise<ReadonlyMap<number, boolean>>;
  /** What a live row says to others. */
  heldOf(row: Row): Held;
  inspect(name: string, call: Call): Promise<Held | null>;
  /** Live leases of a prefix, in pages: each from behind the last. */
  pages(prefix: string, call: Call): AsyncIterable<readonly NamedLease[]>;
}

/** The operations of a backend that need no more than its rows. */
export type LeaseOperations = Pick<
  Backend,
  "acquire" | "renew" | "release" | "break" | "inspect" | "list"
>;

/** Operations that reject as `opened` throws while there is no store. */
export function leaseOperations(
  opened: () => { readonly rows: LeaseRows; readonly doubts: Doubts },
): LeaseOperations {
  return {
    acquire: async (request, call) => await acquire(opened(), request, call),
    renew: async (grants, call) => await renew(opened().rows, grants, call),
    release: async (requests, call) => await release(opened(), requests, call),
    break: async (name, token, call) =>
      (await opened().rows.end([{ name, token }], call, "break a lease")).get(0) === true,
    inspect: async (name, call) => opened().rows.inspect(name, call),
    async *list(prefix, call) {
      for await (const page of opened().rows.pages(prefix, call)) yield* page;
    },
  };
}

async function acquire(
  { rows, doubts }: { readonly rows: LeaseRows; readonly doubts: Doubts },
  request: AcquireRequest,
  call: Call,
): Promise<{ readonly grant: Grant } | { readonly held: Held }> {
  const { holder } = request;
  doubts.begin(holder);
  try {
    for (let tries = 1; tries <= TRIES; tries++) {
      const answer = await rows.acquire(request, call);
      if (answer === "locked") break;
      if (answer !== "overtaken") return answer;
    }
    return { held: { why: "held" } };
  } catch (error) {
    if (error instanceof OutcomeUnknownError) doubts.doubt(holder, rows.lingersMs(call));
    throw error;
  } finally {
    doubts.end(holder);
  }
}

async function renew(
  rows: LeaseRows,
  grants: readonly Grant[],
  call: Call,
): Promise<readonly Renewed[]> {
  const outcomes = new Array<Renewed>(grants.length).fill("unavailable");
  let left = grants.map((_, i) => i);
  for (let tries = 0; left.length > 0 && tries < RENEWAL_TRIES; tries++) {
    const answers = await rows.renew(left.map((i) => grants[i]!), call);
    left = left.filter((index, at) => {
      const outcome = renewedAs(answers.get(at), rows);
      if (outcome !== undefined) outcomes[index] = outcome;
      return outcome === undefined;
    });
  }
  return outcomes;
}

/** The outcome that a row shows; undefined when somebody has locked the lease. */
function renewedAs(row: Row | undefined, rows: LeaseRows): Renewed | undefined {
  if (row === undefined) return undefined;
  if (isTrue(row["renewed"])) return "renewed";
  if (!isTrue(row["live"])) return { lost: "absent" };
  return isTrue(row["mine"]) ? undefined : { lost: rows.heldOf(row) };
}

/** A truth in the form that either server gives it. */
const isTrue = (value: unknown): boolean => Number(value) === 1;

async function release(
  { rows, doubts }: { readonly rows: LeaseRows; readonly doubts: Doubts },
  requests: readonly ReleaseRequest[],
  call: Call,
): Promise<readonly Released[]> {
  const live = await rows.end(requests, call, "release a lease");
  return requests.map(({ holder, token }, i) => {
    if (live.get(i) === true) return "released";
    // The attempt may still arrive, and be granted after this.
    const isOpen = token === undefined && !live.has(i) && doubts.isOpen(holder);
    return isOpen ? "unknown" : "not-held";
  });
}
