/**
 * Who was left in peace: what a client owes in time it owes only while nothing is done to it.
 *
 * Disturbed is a client that is stopped, cut off from somebody, or has just lost a message or had
 * one held up; and everybody is while a server stands still.
 */
import type { HistoryEvent } from "../history.js";

/** A message on its way for longer than this was held up, milliseconds. */
const SLOW_MS = 500;
const STOPS = new Set(["pause", "suspend", "freeze-machine"]);
const SERVER_FAULTS = new Set([...STOPS, "resume", "kill", "failover", "leader-change"]);

/** Follows a history from fact to fact. */
export class Calm {
  readonly #clients: ReadonlySet<string>;
  /** When messages of a client went astray, in order; what is past is taken off. */
  readonly #astray = new Map<string, number[]>();
  readonly #since = new Map<string, number>();
  readonly #stopped = new Set<string>();
  readonly #killed = new Set<string>();
  readonly #cuts = new Set<string>();
  #allSinceMs = 0;

  constructor(events: readonly HistoryEvent[]) {
    const clients = new Set<string>();
    for (const event of events) {
      if (event.kind === "wait" && event.holder === undefined) clients.add(event.client);
      if (event.kind === "elected" || event.kind === "believes") clients.add(event.client);
      if (event.kind !== "message") continue;
      const isSlow = event.fate === "arrived" && event.atMs - event.sentMs > SLOW_MS;
      if (event.fate === "lost" || isSlow) this.#strays(event.from, event.to, event.sentMs);
    }
    for (const moments of this.#astray.values()) moments.sort((a, b) => a - b);
    this.#clients = clients;
  }

  #strays(from: string, to: string, atMs: number): void {
    for (const name of [from, to]) {
      const moments = this.#astray.get(name);
      if (moments === undefined) this.#astray.set(name, [atMs]);
      else moments.push(atMs);
    }
  }

  /** Takes note of the next fact. */
  see(event: HistoryEvent): void {
    if (event.kind !== "fault") return;
    const { what, target, atMs } = event;
    if (what === "cut" || what === "heal") {
      if (what === "cut") this.#cuts.add(target);
      else this.#cuts.delete(target);
      for (const name of target.split("→")) this.#since.set(name, atMs);
      return;
    }
    if (what === "kill" && this.#clients.has(target)) this.#killed.add(target);
    if (STOPS.has(what)) this.#stopped.add(target);
    if (what === "resume") this.#stopped.delete(target);
    this.#since.set(target, atMs);
    const isServer = !this.#clients.has(target) && SERVER_FAULTS.has(what);
    if (isServer) this.#allSinceMs = atMs;
  }

  /** Whether it is one that waits for leases, and no server. */
  isClient(name: string): boolean {
    return this.#clients.has(name);
  }

  isKilled(client: string): boolean {
    return this.#killed.has(client);
  }

  /** Since when a client was left in peace; Infinity while it is not. */
  since(client: string, nowMs: number): number {
    if (this.#killed.has(client) || this.#stopped.has(client)) return Infinity;
    for (const stopped of this.#stopped) if (!this.#clients.has(stopped)) return Infinity;
    for (const cut of this.#cuts) if (cut.split("→").includes(client)) return Infinity;
    const moments = this.#astray.get(client);
    while (moments !== undefined && moments.length > 0 && moments[0]! <= nowMs) {
      this.#since.set(client, Math.max(this.#since.get(client) ?? 0, moments.shift()!));
    }
    return Math.max(this.#since.get(client) ?? 0, this.#allSinceMs);
  }
}
