/**
 * What happened, in the order in which it happened, as data: three truths that must be kept apart.
 *
 * - What the **store** says: `grant`, `extend`, `end`, in its own serialization order.
 * - What each **client** believes: `believes`, `doubts`, `stops`.
 * - What the **resource** accepted: `arm`, `read`, `write`, and `acked` where the client was told.
 *
 * And what was done to them: `fault`. The checkers know nothing but this.
 */

/** Why a grant ended in the store. */
export type EndReason = "released" | "expired" | "broken" | "forgotten";

/** One fact. Tokens are decimal text, so that a history is plain JSON. */
export type Fact =
  | {
      readonly kind: "grant";
      readonly key: string;
      readonly token: string;
      readonly holder: string;
      readonly client: string;
      readonly ttlMs: number;
      readonly store?: string;
    }
  | {
      readonly kind: "extend";
      readonly key: string;
      readonly token: string;
      readonly holder: string;
      readonly by: string;
    }
  | {
      readonly kind: "end";
      readonly key: string;
      readonly token: string;
      readonly holder: string;
      readonly why: EndReason;
      /** Holder of the request that ended it; absent where the store did. */
      readonly by?: string;
      /** Whether the store let go before the time that it had acknowledged. */
      readonly early?: boolean;
    }
  | {
      readonly kind: "wait" | "left" | "served" | "gave-up";
      readonly key: string;
      readonly client: string;
      readonly holder?: string;
    }
  | {
      readonly kind: "believes" | "doubts" | "stops";
      readonly key: string;
      readonly client: string;
      readonly token: string;
      readonly why?: string;
      /** Milliseconds until the client's own deadline, by its own account. */
      readonly leftMs?: number;
    }
  | {
      readonly kind: "arm" | "read" | "write";
      readonly resource: string;
      readonly client: string;
      readonly scope: string;
      readonly token: string;
      readonly holder: string;
      readonly arm: number;
      readonly n: number;
      readonly accepted: boolean;
      readonly why?: string;
      /** What a read saw, what a write left. */
      readonly value?: number;
      /** Of a write: what the value was made from. */
      readonly base?: number;
    }
  | {
      /** An operation of a fenced resource as its client sees it: sent. */
      readonly kind: "asked";
      readonly resource: string;
      readonly client: string;
      readonly id: number;
      readonly op: "arm" | "read" | "write";
      readonly token: string;
      readonly holder: string;
      readonly arm: number;
      readonly n: number;
      /** Of a write: what it would leave. */
      readonly value?: number;
    }
  | {
      /** The end of an `asked`; a client that was killed has none. */
      readonly kind: "answered";
      readonly resource: string;
      readonly client: string;
      readonly id: number;
      readonly outcome: "accepted" | "refused" | "unknown";
      readonly why?: string;
      /** What an accepted read saw. */
      readonly value?: number;
    }
  | {
      readonly kind: "acked";
      readonly resource: string;
      readonly client: string;
      readonly token: string;
      readonly base: number;
      readonly value: number;
      /** `ok`: the client was told; `unknown`: it does not know; `refused`: it was refused. */
      readonly outcome: "ok" | "unknown" | "refused";
    }
  | {
      /** `led`: did a piece of a leader's work. */
      readonly kind: "elected" | "led" | "revoked";
      readonly key: string;
      readonly client: string;
      readonly term: string;
      readonly why?: string;
    }
  | {
      readonly kind: "observed";
      readonly key: string;
      readonly client: string;
      /** Absent: no leader. */
      readonly term?: string;
    }
  | {
      readonly kind: "fault";
      readonly what: string;
      readonly target: string;
      readonly forMs?: number;
    }
  | {
      readonly kind: "message";
      readonly from: string;
      readonly to: string;
      readonly what: string;
      readonly sentMs: number;
      readonly fate: "arrived" | "lost";
    }
  | { readonly kind: "note"; readonly text: string; readonly client?: string }
  | { readonly kind: "leak"; readonly what: string; readonly client: string };

/** A fact, and when. */
export type HistoryEvent = Fact & { readonly atMs: number };

/** Name of a fact. */
export type FactKind = Fact["kind"];

/** Facts of one kind. */
export type EventOf<K extends FactKind> = HistoryEvent extends infer E
  ? E extends { readonly kind: infer Own }
    ? [Own & K] extends [never]
      ? never
      : E & { readonly kind: Own & K }
    : never
  : never;

/** The facts of one run. */
export class History {
  readonly events: HistoryEvent[] = [];
  readonly #nowMs: () => number;

  constructor(nowMs: () => number = () => 0) {
    this.#nowMs = nowMs;
  }

  add(fact: Fact): void {
    this.events.push({ atMs: Math.round(this.#nowMs() * 1_000) / 1_000, ...fact });
  }

  /** The facts of some kinds, in order. */
  of<K extends FactKind>(...kinds: readonly K[]): EventOf<K>[] {
    return this.events.filter(({ kind }) => kinds.includes(kind as K)) as EventOf<K>[];
  }

  /** One number for the whole run: two runs of one seed must agree on it. */
  hash(): string {
    let a = 0xdeadbeef;
    let b = 0x41c6ce57;
    for (const event of this.events) {
      const text = JSON.stringify(event);
      for (let i = 0; i < text.length; i++) {
        const code = text.charCodeAt(i);
        a = Math.imul(a ^ code, 0x85ebca6b);
        b = Math.imul(b ^ code, 0xc2b2ae35);
        a ^= b >>> 15;
      }
    }
    const hex = (word: number): string => (word >>> 0).toString(16).padStart(8, "0");
    return hex(a) + hex(b);
  }

  /** One line of JSON for each fact. */
  toJsonLines(): string {
    return this.events.map((event) => `${JSON.stringify(event)}\n`).join("");
  }
}
