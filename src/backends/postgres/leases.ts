/** The statements on lease rows of one schema. */
import type { AcquireRequest, Call, Grant, Held } from "../../core/backend.js";
import type { Asking } from "../sql-asking.js";
import type { Row, Value } from "../sql-client.js";
import type { Ending, LeaseRows, NamedLease } from "../sql-leases.js";
import type { Faults, Renewals } from "./client.js";
import type { Notices } from "./notices.js";
import { grantOf, heldOf } from "./rows.js";
import { COUNTER_MISSING_STATE } from "./schema.js";
import { PAGE, type Statements } from "./statements.js";

/** SQLSTATE for a lock that was not free in time. */
const LOCK_TIMEOUT_STATE = "55P03";
/** Part of a call's time that the server may wait for locks. */
const LOCK_SHARE = 0.4;

/** What the statements are run with. */
export interface LeaseParts {
  readonly asking: Asking<Value>;
  readonly renewals: Renewals;
  readonly statements: Statements;
  readonly faults: Faults;
  readonly hasTimeline: boolean;
  readonly notices: Pick<Notices, "isAwaited" | "wakeLater">;
}

/** Lease rows of one schema. */
export class Leases implements LeaseRows {
  readonly heldOf: LeaseRows["heldOf"] = heldOf;
  readonly #parts: LeaseParts;

  constructor(parts: LeaseParts) {
    this.#parts = parts;
  }

  async acquire(
    request: AcquireRequest,
    call: Call,
  ): Promise<{ readonly grant: Grant } | { readonly held: Held } | "overtaken" | "locked"> {
    const answer = await this.#acquire(request, call);
    if (typeof answer === "string") this.#parts.notices.wakeLater(request.name);
    return answer;
  }

  async #acquire(
    request: AcquireRequest,
    call: Call,
  ): Promise<{ readonly grant: Grant } | { readonly held: Held } | "overtaken" | "locked"> {
    const { name, holder, ttlMs, holderInfo } = request;
    const { asking, faults, hasTimeline, notices, statements } = this.#parts;
    const info = holderInfo === undefined ? null : JSON.stringify(holderInfo);
    const isAwaited = notices.isAwaited(name);
    const values = [name, holder, String(ttlMs), info, isAwaited, lockMs(call), hasTimeline];
    let rows: readonly Row[];
    try {
      rows = await asking.ask(statements.acquire, values, call);
    } catch (error) {
      const state = faults.sqlState(error);
      if (state === LOCK_TIMEOUT_STATE) return "locked";
      if (faults.isContention(error)) return "overtaken";
      const during =
        state === COUNTER_MISSING_STATE
          ? "acquire a lease: run `tenure migrate --print` again, since"
          : "acquire a lease";
      throw faults.explain(error, { during, backend: "postgres", lock: name });
    }
    const answer = rows[0]?.["answer"];
    if (typeof answer !== "string") return "overtaken";
    const row = JSON.parse(answer) as Row;
    if (row["granted"] !== true) return { held: heldOf(row) };
    asking.sweepNowAndThen(statements.sweep, call);
    return { grant: grantOf(request, row) };
  }

  lingersMs(call: Call): number {
    return call.timeoutMs;
  }

  async renew(grants: readonly Grant[], call: Call): Promise<ReadonlyMap<number, Row>> {
    const { renewals, statements, faults } = this.#parts;
    const asked = grants.map(({ name, holder, token, ttlMs }) => ({
      n: name,
      h: holder,
      t: String(token),
      d: String(ttlMs),
    }));
    try {
      const { rows } = await renewals.query(statements.renew, [JSON.stringify(asked)], call);
      return new Map(rows.map((row) => [Number(row["i"]) - 1, row]));
    } catch (error) {
      throw faults.explain(error, { during: "renew leases", backend: "postgres" });
    }
  }

  async end(
    endings: readonly Ending[],
    call: Call,
    during: string,
  ): Promise<ReadonlyMap<number, boolean>> {
    const { asking } = this.#parts;
    const [text, values] = this.#ending(endings, lockMs(call));
    const rows = await asking.run(text, values, call, during);
    const found = rows.filter((row) => row["live"] !== null);
    return new Map(found.map(({ i, live }) => [Number(i ?? 1) - 1, live === true]));
  }

  #ending(
    endings: readonly Ending[],
    patienceMs: number,
  ): readonly [string, readonly Value[]] {
    const { statements } = this.#parts;
    const asked = endings.map(({ name, holder = null, token }) => ({
      n: name,
      h: holder,
      t: token === undefined ? null : String(token),
    }));
    const [only, ...others] = asked;
    if (only === undefined || others.length > 0) {
      return [statements.releaseMany, [JSON.stringify(asked), patienceMs]];
    }
    const { n, h, t } = only;
    if (h === null) return [statements.break, [n, t, patienceMs]];
    return [statements.release, [n, h, t, patienceMs]];
  }

  async inspect(name: string, call: Call): Promise<Held | null> {
    const { asking, statements } = this.#parts;
    const [row] = await asking.run(statements.inspect, [name], call, "look at a lease", name);
    return row === undefined ? null : heldOf(row);
  }

  /** From now on the release of the present lease is told; later leases are noted by `acquire`. */
  async want(name: string, call: Call): Promise<void> {
    const { asking, statements } = this.#parts;
    await asking.run(statements.want, [name], call, "wait for a lease", name);
  }

  async *pages(prefix: string, call: Call): AsyncIterable<readonly NamedLease[]> {
    const { asking, statements } = this.#parts;
    for (let after = ""; ; ) {
      const rows = await asking.run(statements.page, [after, prefix], call, "list leases");
      const page = rows.map((row) => ({ name: String(row["name"]), ...heldOf(row) }));
      yield page;
      if (page.length < PAGE) return;
      after = page.at(-1)!.name;
    }
  }
}

/** How long the server may wait for locks: it answers before the core gives up. */
function lockMs(call: Call): number {
  return Math.max(1, Math.floor(call.timeoutMs * LOCK_SHARE));
}
