/**
 * Waits until replicas have a grant.
 *
 * `WAIT` counts the replicas that have received what **its own connection** wrote, and blocks it
 * meanwhile. So this has a connection to itself, on which each grant is renewed once more:
 * whichever replica has that, has the grant. While one `WAIT` is under way the next grants
 * gather, and share the one after it.
 *
 * Not promised: that the grant survives a failover. The promoted replica may be another one.
 * https://redis.io/docs/latest/commands/wait/
 */
import type { Grant } from "../../core/backend.js";
import type { Timers } from "../../core/clock.js";
import type { Commands, Connection } from "./client.js";
import type { Keys } from "./keys.js";
import { elements } from "./replies.js";
import { RENEW } from "./scripts.js";
import { Nodes } from "./nodes.js";

/** Longest wait for replicas, milliseconds; a call's own limit may be shorter. */
const LONGEST_MS = 1_000;

interface Waiting {
  readonly key: string;
  readonly grant: Grant;
  readonly timeoutMs: number;
  readonly resolve: (replicas: number) => void;
  readonly reject: (error: unknown) => void;
}

/** The grants that wait on one server. */
interface Lane {
  busy: boolean;
  gathered: Waiting[];
}

/** Counts the replicas of grants. */
export class Replicas {
  readonly #wanted: number;
  readonly #connection: () => Promise<Connection>;
  readonly #keys: Keys;
  readonly #timers: Timers;
  readonly #lanes = new Map<Commands, Lane>();
  #nodes: Promise<Nodes> | undefined;

  constructor(
    wanted: number,
    connection: () => Promise<Connection>,
    keys: Keys,
    timers: Timers,
  ) {
    this.#timers = timers;
    this.#wanted = wanted;
    this.#connection = connection;
    this.#keys = keys;
  }

  /** How many replicas have the grant by the end of the wait; 0 when it is no longer held. */
  async of(grant: Grant, timeoutMs: number): Promise<number> {
    const { commands } = await this.#connection();
    const key = this.#keys.lease(grant.name);
    const node = commands.isCluster ? await this.#nodeOf(commands, key) : commands;
    let lane = this.#lanes.get(node);
    if (lane === undefined) this.#lanes.set(node, (lane = { busy: false, gathered: [] }));
    const { gathered } = lane;
    const counted = new Promise<number>((resolve, reject) => {
      gathered.push({ key, grant, timeoutMs, resolve, reject });
    });
    if (!lane.busy) void this.#run(node, lane);
    return counted;
  }

  async #nodeOf(cluster: Commands, key: string): Promise<Commands> {
    this.#nodes ??= Nodes.read(cluster, this.#timers);
    try {
      return (await this.#nodes).commandsOf(key);
    } catch (error) {
      this.#nodes = undefined;
      throw error;
    }
  }

  async #run(node: Commands, lane: Lane): Promise<void> {
    lane.busy = true;
    while (lane.gathered.length > 0) {
      const group = lane.gathered;
      lane.gathered = [];
      try {
        await this.#count(node, group);
      } catch (error) {
        // The slot may have moved to another node.
        this.#nodes = undefined;
        for (const { reject } of group) reject(error);
      }
    }
    lane.busy = false;
    this.#lanes.delete(node);
  }

  async #count(node: Commands, group: readonly Waiting[]): Promise<void> {
    const byKey = new Map<string, Waiting[]>();
    for (const waiting of group) {
      byKey.set(waiting.key, [...(byKey.get(waiting.key) ?? []), waiting]);
    }
    // One script for each key: those of a cluster's node are in different slots.
    const renewing = [...byKey].map(([key, some]) =>
      node.evaluate(
        RENEW,
        some.map(() => key),
        some.flatMap(({ grant }) => [grant.holder, String(grant.token), String(grant.ttlMs)]),
      ),
    );
    const limitMs = Math.min(LONGEST_MS, ...group.map(({ timeoutMs }) => timeoutMs / 2));
    const replies = await Promise.all(renewing);
    const waited = await node.send(["WAIT", String(this.#wanted), String(Math.ceil(limitMs))]);
    for (const [i, some] of [...byKey.values()].entries()) {
      for (const [j, { resolve }] of some.entries()) {
        const isHeld = Number(elements(replies[i])[j]) === 1;
        resolve(isHeld ? Number(waited) : 0);
      }
    }
  }
}
