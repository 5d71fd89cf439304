/** The end of a process: its own, and that of others. Each method is one try. */
import type { Ledger } from "./ledger.js";
import type { SessionRow } from "./schema.js";

/** Rows handled in one transaction, so that a process that held many leases blocks nobody long. */
const ROWS = 500n;

/** Sessions of a file. */
export class Sessions {
  readonly #ledger: Ledger;

  constructor(ledger: Ledger) {
    this.#ledger = ledger;
  }

  /** Where the process of a session listens; undefined when it is gone or listens nowhere. */
  find(session: bigint): SessionRow | undefined {
    return this.#ledger.statements.readSession.get(session) as SessionRow | undefined;
  }

  /** All other sessions. */
  others(): readonly SessionRow[] {
    return this.#ledger.statements.listSessions.all(this.#ledger.session) as SessionRow[];
  }

  /**
   * Ends everything of a process that has certainly ended: its waiters, then its leases, then its
   * session. True when nothing is left.
   */
  bury(session: bigint): boolean {
    if (this.find(session) === undefined) return true;
    return this.#ledger.transact(() => {
      const { statements } = this.#ledger;
      if (this.#removeWaiters(session, ROWS) === Number(ROWS)) return false;
      const leases = statements.leasesOfSession.all(session, ROWS) as { name: string }[];
      for (const { name } of leases) this.#ledger.handOn(name);
      if (leases.length === Number(ROWS)) return false;
      statements.deleteSession.run(session);
      return true;
    });
  }

  /**
   * Leaves the file in order: no waiters, no offers, no session. Leases stay, and end by their time
   * alone, since nobody can find their session dead any more.
   */
  leave(): void {
    this.#ledger.transact(() => {
      const { statements, session } = this.#ledger;
      this.#removeWaiters(session, -1n);
      const offers = statements.offersOfSession.all(session) as { name: string }[];
      for (const { name } of offers) this.#ledger.handOn(name);
      statements.deleteSession.run(session);
    });
  }

  #removeWaiters(session: bigint, limit: bigint): number {
    const { waitersOfSession } = this.#ledger.statements;
    const waiters = waitersOfSession.all(session, limit) as { name: string; id: bigint }[];
    for (const { name, id } of waiters) this.#ledger.removeWaiter(name, id);
    return waiters.length;
  }
}
