/**
 * Leases on a majority of servers that know nothing of each other. No server knows what a lease
 * is; it is what a majority has of one holder. So the facts of the history are found by looking at
 * all servers at once, which nobody in the world can do.
 */
import { quorumOf } from "../../backends/redlock/ballot.js";
import { readSeen } from "../../backends/redlock/records.js";
import type { EndReason } from "../history.js";
import type { World } from "../world.js";

/** A server that keeps records of locks. */
export interface Recorder {
  /** Names of locks that it has records of, expired ones among them. */
  readonly names: readonly string[];
  /** The record of a lock and how long it lives, if it does. */
  recordOf(name: string): { readonly text: string; readonly leftMs: number } | undefined;
}

interface Lease {
  readonly key: string;
  readonly holder: string;
  /** Until when a majority has promised it, in the world's time. */
  untilMs: number;
}

/** Who has a majority, seen from outside. */
export class Majority {
  readonly #world: World;
  readonly #masters: () => readonly Recorder[];
  readonly #leases = new Map<string, Lease>();

  constructor(world: World, masters: () => readonly Recorder[]) {
    this.#world = world;
    this.#masters = masters;
  }

  /** Notes what has become of leases since the last look. */
  look(why: EndReason = "expired"): void {
    const { history, nowMs } = this.#world;
    const masters = this.#masters();
    for (const key of new Set(masters.flatMap(({ names }) => names))) {
      for (const { holder, text, untilMs } of this.#held(key)) {
        const id = `${key} ${holder}`;
        const known = this.#leases.get(id);
        if (known === undefined) {
          const seen = readSeen([text, 1]);
          const shown = typeof seen === "object" ? seen : undefined;
          const client = String(shown?.holderInfo?.["host"] ?? "?");
          const ttlMs = shown?.ttlMs ?? 0;
          history.add({ kind: "grant", key, token: "0", holder, client, ttlMs, store: "masters" });
          this.#leases.set(id, { key, holder, untilMs });
        } else if (untilMs > known.untilMs + 1) {
          known.untilMs = untilMs;
          history.add({ kind: "extend", key, token: "0", holder, by: holder });
        }
      }
    }
    for (const [id, { key, holder, untilMs }] of [...this.#leases]) {
      if (this.#held(key).some((lease) => lease.holder === holder)) continue;
      this.#leases.delete(id);
      const by = why === "released" ? { by: holder } : {};
      const early = why !== "released" && nowMs < untilMs - 1 ? { early: true } : {};
      history.add({ kind: "end", key, token: "0", holder, why, ...by, ...early });
    }
  }

  /** Holders that a majority has now: one at most. */
  #held(
    key: string,
  ): readonly { readonly holder: string; readonly text: string; readonly untilMs: number }[] {
    const byHolder = new Map<string, { readonly text: string; readonly lefts: number[] }>();
    for (const master of this.#masters()) {
      const record = master.recordOf(key);
      if (record === undefined) continue;
      const holder = record.text.split(" ")[0]!;
      const own = byHolder.get(holder) ?? { text: record.text, lefts: [] };
      own.lefts.push(record.leftMs);
      byHolder.set(holder, own);
    }
    const quorum = quorumOf(this.#masters().length);
    return [...byHolder].flatMap(([holder, { text, lefts }]) => {
      const left = lefts.sort((a, b) => b - a)[quorum - 1];
      return left === undefined ? [] : [{ holder, text, untilMs: this.#world.nowMs + left }];
    });
  }
}
