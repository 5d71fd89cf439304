/** The statements on lease rows of one schema. */
import type { AcquireRequest, Call, Grant, Held } from "../../core/backend.js";
import { fromHex, toHex } from "../../dialects/mysql.js";
import type { Asking } from "../sql-asking.js";
import type { Row } from "../sql-client.js";
import type { Ending, LeaseRows, NamedLease } from "../sql-leases.js";
import type { Faults, Renewals, Value } from "./client.js";
import { COUNTER_MISSING_STATE } from "./procedures.js";
import { grantOf, heldOf } from "./rows.js";
import { PAGE, type Statements } from "./statements.js";

/** Number of the error for a lock that was not free in time. */
const LOCK_TIMEOUT = 1205;
/** Number of the error for a row that is there already. */
const DUPLICATE = 1062;
/** Part of a call's time that the server may wait for locks. */
const LOCK_SHARE = 0.4;
/** Waits for locks that one attempt may go through: the lease's row, its counter, its commit. */
const WAITS = 3;

/** What the statements are run with. */
export interface LeaseParts {
  readonly asking: Asking<Value>;
  readonly renewals: Renewals;
  readonly statements: Statements;
  readonly faults: Faults;
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
    const { name, holder, ttlMs, holderInfo } = request;
    const { asking, faults, statements } = this.#parts;
    const info = holderInfo === undefined ? null : toHex(JSON.stringify(holderInfo));
    const values = [toHex(name), toHex(holder), String(ttlMs), info, lockSeconds(call)];
    let row: Row;
    try {
      row = (await asking.ask(statements.acquire, values, call))[0]!;
    } catch (error) {
      const number = faults.errorNumber(error);
      if (number === LOCK_TIMEOUT) return "locked";
      if (number === DUPLICATE || faults.isContention(error)) return "overtaken";
      const during =
        faults.sqlState(error) === COUNTER_MISSING_STATE
          ? "acquire a lease: run `tenure migrate --print` again, since"
          : "acquire a lease";
      throw faults.explain(error, { during, backend: "mysql", lock: name });
    }
    const answer = row["answer"];
    if (answer === "locked") return answer;
    if (answer === "held") return { held: heldOf(row) };
    asking.sweepNowAndThen(statements.sweep, call);
    return { grant: grantOf(request, row) };
  }

  lingersMs(call: Call): number {
    return call.timeoutMs + WAITS * lockSeconds(call) * 1_000;
  }

  async renew(grants: readonly Grant[], call: Call): Promise<ReadonlyMap<number, Row>> {
    const { renewals, statements, faults } = this.#parts;
    const asked = inOrderOfNames(grants).map(([n, i]) => {
      const { holder, token, ttlMs } = grants[i]!;
      return { i: i + 1, n, h: toHex(holder), t: String(token), d: ttlMs };
    });
    try {
      const { rows } = await renewals.query(statements.renew, [JSON.stringify(asked)], call);
      return new Map(rows.map((row) => [Number(row["i"]) - 1, row]));
    } catch (error) {
      if (faults.isContention(error)) return new Map();
      throw faults.explain(error, { during: "renew leases", backend: "mysql" });
    }
  }

  async end(
    endings: readonly Ending[],
    call: Call,
    during: string,
  ): Promise<ReadonlyMap<number, boolean>> {
    const [only] = endings;
    if (only !== undefined && endings.length === 1) {
      const wasLive = await this.#endOne(only, call, during);
      return new Map(wasLive === undefined ? [] : [[0, wasLive]]);
    }
    const { asking, statements } = this.#parts;
    const asked = inOrderOfNames(endings).map(([n, i]) => {
      const { holder, token } = endings[i]!;
      const h = holder === undefined ? {} : { h: toHex(holder) };
      const t = token === undefined ? {} : { t: String(token) };
      return { i: i + 1, n, ...h, ...t };
    });
    const values = [JSON.stringify(asked), lockSeconds(call)];
    const [row] = await asking.run(statements.releaseMany, values, call, during);
    const ended = row?.["ended"];
    if (typeof ended !== "string") return new Map();
    const indexes = ended.split(",").map(Number);
    return new Map(indexes.map((index) => [Math.abs(index) - 1, index > 0]));
  }

  /** Whether the lease was live; undefined when there was none. */
  async #endOne(
    { name, holder, token }: Ending,
    call: Call,
    during: string,
  ): Promise<boolean | undefined> {
    const { asking, statements } = this.#parts;
    const h = holder === undefined ? null : toHex(holder);
    const t = token === undefined ? null : String(token);
    const values = [toHex(name), h, t, lockSeconds(call)];
    const [row] = await asking.run(statements.release, values, call, during);
    if (row === undefined) return true;
    return row["live"] === null ? undefined : false;
  }

  async inspect(name: string, call: Call): Promise<Held | null> {
    const { asking, statements } = this.#parts;
    const values = [toHex(name)];
    const [row] = await asking.run(statements.inspect, values, call, "look at a lease", name);
    return row === undefined ? null : heldOf(row);
  }

  async *pages(prefix: string, call: Call): AsyncIterable<readonly NamedLease[]> {
    const { asking, statements } = this.#parts;
    const start = toHex(prefix);
    for (let after = ""; ; ) {
      const rows = await asking.run(statements.page, [after, start, start], call, "list leases");
      yield rows.map((row) => ({ name: fromHex(row["name"]), ...heldOf(row) }));
      if (rows.length < PAGE) return;
      after = String(rows.at(-1)!["name"]);
    }
  }
}

/** Names as hex digits, each with its place in the call, in the order in which rows are locked. */
function inOrderOfNames(named: readonly { readonly name: string }[]): [string, number][] {
  const order = named.map(({ name }, i): [string, number] => [toHex(name), i]);
  return order.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
}

/** How long the server may wait for locks. It counts in whole seconds: at least one. */
function lockSeconds(call: Call): number {
  return Math.max(1, Math.floor((call.timeoutMs * LOCK_SHARE) / 1_000));
}
