/**
 * How leases, terms, handles and errors stand in a log. A token is a bigint, which JSON does not
 * know: without this a JSON logger throws over a lease, and just when a lock was refused. And what
 * an object works with inside says nothing to a reader.
 */

/** Facts that JSON can carry: bigints as decimal text, in plain objects and lists within, too. */
export function jsonFacts(facts: object): Record<string, unknown> {
  return Object.fromEntries(Object.entries(facts).map(([name, fact]) => [name, jsonFact(fact)]));
}

function jsonFact(fact: unknown): unknown {
  if (typeof fact === "bigint") return fact.toString();
  if (Array.isArray(fact)) return fact.map(jsonFact);
  return isPlain(fact) ? jsonFacts(fact) : fact;
}

function isPlain(fact: unknown): fact is object {
  if (typeof fact !== "object" || fact === null) return false;
  const prototype: unknown = Object.getPrototypeOf(fact);
  return prototype === null || prototype === Object.prototype;
}

/** An object that is shown by a few facts. */
export abstract class Told {
  /** What it is called where it is shown. */
  protected abstract get kind(): string;

  /** What a reader of a log wants to know of it. */
  protected abstract facts(): object;

  /** For `JSON.stringify` and loggers: tokens as decimal text. */
  toJSON(): Record<string, unknown> {
    return jsonFacts(this.facts());
  }

  /** For `util.inspect`, and so `console.log`. */
  protected shown(_depth: number, how: object, inspect: Inspect): string {
    return `${this.kind} ${inspect(this.facts(), how)}`;
  }
}

type Inspect = (value: object, how: object) => string;

// Not a member: declarations are written file by file, and this name would have to be computed.
Object.defineProperty(Told.prototype, Symbol.for("nodejs.util.inspect.custom"), {
  value(this: { shown: (...asked: unknown[]) => string }, ...asked: unknown[]): string {
    return this.shown(...asked);
  },
});
