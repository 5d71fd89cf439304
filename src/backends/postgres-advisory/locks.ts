/** The operations on session locks. */
import type {
  AcquireRequest,
  Call,
  Grant,
  Held,
  HolderInfo,
  Released,
  ReleaseRequest,
  Renewed,
} from "../../core/backend.js";
import { UnavailableError } from "../../core/errors.js";
import { parseToken } from "../../core/token.js";
import type { Faults, Row, Value } from "../sql-client.js";
import type { Connection } from "./client.js";
import type { Sessions } from "./sessions.js";
import type { Statements } from "./statements.js";

const BACKEND = "postgres-advisory";
/** Looks before a name is called held. */
const LOOKS = 3;
/** Grants between two sweeps of this process. */
const SWEEP_EVERY = 256;

/** What the operations work with. */
export interface LockParts {
  readonly sessions: Sessions;
  /** For looking, and for what needs a session without locks. */
  readonly control: () => Promise<Connection>;
  readonly statements: Statements;
  readonly faults: Faults;
}

/** Session locks and their rows. */
export class Locks {
  readonly #parts: LockParts;
  /** The session of each holder that may have something: its locks can be released there only. */
  readonly #sessionOf = new Map<string, string>();
  #grants = 0;

  constructor(parts: LockParts) {
    this.#parts = parts;
  }

  async acquire({
    name,
    holder,
    ttlMs,
    holderInfo,
    session,
  }: AcquireRequest): Promise<{ readonly grant: Grant } | { readonly held: Held }> {
    const { sessions, statements, faults } = this.#parts;
    const info = holderInfo === undefined ? null : JSON.stringify(holderInfo);
    if (session === undefined || sessions.find(session) === undefined) {
      throw ended("acquire a lease");
    }
    this.#sessionOf.set(holder, session);
    const values = [name, holder, String(ttlMs), info];
    let row: Row | undefined;
    // No row: the lock is taken, and by nobody's lease. A sweep has it for a moment.
    for (let looks = 1; looks <= LOOKS && row === undefined; looks++) {
      try {
        row = (await sessions.query(session, statements.acquire, values))?.rows[0];
      } catch (error) {
        if (faults.isContention(error)) continue;
        throw faults.explain(error, { during: "acquire a lease", backend: BACKEND });
      }
    }
    if (row?.["granted"] !== true) {
      this.#sessionOf.delete(holder);
      return { held: row === undefined ? { why: "held" } : heldOf(row) };
    }
    this.#sweepNowAndThen();
    const token = parseToken(row["token"] as string);
    return { grant: { name, holder, token, ttlMs: Number(row["ttl_ms"]), session } };
  }

  /** Looks at lock and row in the very sessions that must hold them. */
  async renew(grants: readonly Grant[]): Promise<readonly Renewed[]> {
    const outcomes = new Array<Renewed>(grants.length).fill({ lost: "absent" });
    const bySession = new Map<string | undefined, number[]>();
    for (const [i, { session }] of grants.entries()) {
      bySession.set(session, [...(bySession.get(session) ?? []), i]);
    }
    await Promise.all(
      [...bySession].map(async ([session, indexes]) => {
        const asked = indexes.map((i) => {
          const { name, holder, token } = grants[i]!;
          return { n: name, h: holder, t: String(token) };
        });
        for (const row of await this.#look(session, JSON.stringify(asked))) {
          const index = indexes[Number(row["i"]) - 1]!;
          if (row["live"] !== true) continue;
          if (row["mine"] === true) outcomes[index] = "renewed";
          // Its own, in a session that ended without the server's notice, is as good as gone.
          else if (row["same"] !== true) outcomes[index] = { lost: heldOf(row) };
        }
      }),
    );
    return outcomes;
  }

  /** Looks in the session itself; where it has ended, from outside. */
  async #look(session: string | undefined, asked: string): Promise<readonly Row[]> {
    const { sessions, statements } = this.#parts;
    if (sessions.find(session) === undefined) {
      return this.#control(statements.look, [asked], "renew leases");
    }
    return (await this.#inSession(session, statements.look, [asked], "renew leases")).rows;
  }

  async release(requests: readonly ReleaseRequest[]): Promise<readonly Released[]> {
    return Promise.all(requests.map((request) => this.#releaseOne(request)));
  }

  async #releaseOne(request: ReleaseRequest): Promise<Released> {
    const { name, holder, token } = request;
    const session = this.#sessionOf.get(holder);
    if (this.#parts.sessions.find(session) === undefined) {
      if (token !== undefined) return this.#releaseForeign(name, holder, token);
      // An attempt may still be on its way in a session that the server thinks alive.
      return session === undefined ? "not-held" : "unknown";
    }
    const values = [name, holder, token === undefined ? null : String(token)];
    const { release } = this.#parts.statements;
    const { rows } = await this.#inSession(session, release, values, "release a lease");
    this.#sessionOf.delete(holder);
    return rows[0]?.["released"] === true ? "released" : "not-held";
  }

  /** A session that is not ours can only be ended: done where it carries this one lease. */
  async #releaseForeign(name: string, holder: string, token: bigint): Promise<Released> {
    const values = [name, holder, String(token)];
    const during = "release a lease";
    const [row] = await this.#control(this.#parts.statements.releaseForeign, values, during);
    if (row === undefined) return "not-held";
    if (row["released"] === true) return "released";
    throw new UnavailableError(
      `cannot ${during}: ${JSON.stringify(name)} is locked by another session that carries other ` +
        "leases as well; it can be released there, or broken with all of them",
      { backend: BACKEND, lock: name, retryable: false },
    );
  }

  async break(name: string, token: bigint): Promise<boolean> {
    const rows = await this.#control(
      this.#parts.statements.break,
      [name, String(token)],
      "break a lease",
    );
    return rows[0]?.["broken"] === true;
  }

  async inspect(name: string): Promise<Held | null> {
    const [row] = await this.#control(this.#parts.statements.inspect, [name], "look at a lease");
    return row === undefined ? null : heldOf(row);
  }

  async *list(prefix: string, _call: Call): AsyncIterable<Held & { readonly name: string }> {
    const rows = await this.#control(this.#parts.statements.list, [prefix], "list leases");
    for (const row of rows) yield { name: String(row["name"]), ...heldOf(row) };
  }

  /** Forgets what was acquired in sessions that have ended. */
  forgetEnded(): void {
    for (const [holder, session] of this.#sessionOf) {
      if (this.#parts.sessions.find(session) === undefined) this.#sessionOf.delete(holder);
    }
  }

  #sweepNowAndThen(): void {
    if (++this.#grants % SWEEP_EVERY !== 0) return;
    this.#control(this.#parts.statements.sweep, [], "sweep").catch(() => undefined);
  }

  async #inSession(
    session: string | undefined,
    text: string,
    values: readonly Value[],
    during: string,
  ): Promise<{ readonly rows: readonly Row[] }> {
    const { sessions, faults } = this.#parts;
    try {
      const result = await sessions.query(session, text, values);
      if (result !== undefined) return result;
    } catch (error) {
      throw faults.explain(error, { during, backend: BACKEND });
    }
    throw ended(during);
  }

  async #control(text: string, values: readonly Value[], during: string): Promise<readonly Row[]> {
    try {
      return (await (await this.#parts.control()).query(text, values)).rows;
    } catch (error) {
      throw this.#parts.faults.explain(error, { during, backend: BACKEND });
    }
  }
}

function ended(during: string): UnavailableError {
  return new UnavailableError(`cannot ${during}: its session has ended`, { backend: BACKEND });
}

/** What a row says to others. How long the lease lasts nobody can say: as long as its session. */
function heldOf(row: Row): Held {
  const { info } = row;
  return {
    holder: String(row["holder"]),
    token: BigInt(row["token"] as string),
    ttlMs: Number(row["ttl_ms"]),
    why: "held",
    ...(typeof info === "string" ? { holderInfo: JSON.parse(info) as HolderInfo } : {}),
  };
}
