/**
 * Attempts of which a copy may still arrive: their answer was lost, or a member was too slow and
 * another one has answered.
 *
 * 1. A's acquire goes to a member that is frozen, and then to another one, which grants it.
 * 2. A has done its work and releases.
 * 3. The frozen member wakes up and carries out its copy: the name is free, and nobody knows of the
 *    new record, which lives as long as A's session.
 *
 * So the release of such an attempt leaves a key behind on whose absence each copy depends. It is
 * under the session of the attempt, as the record would be: without that nothing can come.
 */
export class OpenAttempts {
  /** Session of each, by holder. */
  readonly #sessions = new Map<string, string>();

  /** To be called before sending. */
  begin(holder: string, session: string): void {
    this.#sessions.set(holder, session);
  }

  /** No copy is left: answered, by the only member that was asked. */
  end(holder: string): void {
    this.#sessions.delete(holder);
  }

  /** The session of an attempt that may still arrive. */
  session(holder: string): string | undefined {
    return this.#sessions.get(holder);
  }

  /** With its session, nothing can arrive any more. */
  endAll(session: string): void {
    for (const [holder, of] of this.#sessions) if (of === session) this.#sessions.delete(holder);
  }
}
