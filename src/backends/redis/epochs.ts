/** Which incarnation of the store gave a grant: the replication id of the key's primary. */
import type { Runtime } from "../../core/runtime.js";
import type { Commands } from "./client.js";
import { Nodes, within } from "./nodes.js";
import { readInfo } from "./server.js";

/** How long a replication id is believed without asking again, milliseconds. */
const BELIEVED_MS = 1_000;
/** Longest that a grant waits for it on a cluster, milliseconds. */
const PATIENCE_MS = 100;

interface Known {
  readonly askedMs: number;
  readonly asking: Promise<string | undefined>;
  epoch: string | undefined;
  isTold: boolean;
}

/**
 * Replication ids: they change with every failover. Not promised: that a failover within the last
 * second is seen, unless a command failed meanwhile.
 */
export class Epochs {
  readonly #commands: Commands;
  readonly #runtime: Pick<Runtime, "clock" | "timers">;
  readonly #known = new Map<Commands, Known>();
  #nodes: Promise<Nodes> | undefined;
  #isSecret = false;

  constructor(commands: Commands, runtime: Pick<Runtime, "clock" | "timers">) {
    this.#commands = commands;
    this.#runtime = runtime;
  }

  /** The server does not tell its replication id to this user. */
  isSecret(): void {
    this.#isSecret = true;
  }

  /** A command failed: another server may answer next. */
  doubt(): void {
    this.#known.clear();
    this.#nodes = undefined;
  }

  /** Undefined where it is not told, or not in time: the grant is worth having without it. */
  of(key: string): string | undefined | Promise<string | undefined> {
    if (this.#isSecret) return undefined;
    // On one server the question travels before the grant's, and is answered before it.
    if (!this.#commands.isCluster) return this.#ofNode(this.#commands);
    return within(this.#runtime.timers, PATIENCE_MS, this.#ofSlot(key)).catch(() => undefined);
  }

  async #ofSlot(key: string): Promise<string | undefined> {
    this.#nodes ??= Nodes.read(this.#commands, this.#runtime.timers);
    const node = (await this.#nodes).find(key);
    if (node !== undefined) return this.#ofNode(node);
    this.#nodes = undefined;
    return undefined;
  }

  #ofNode(node: Commands): string | undefined | Promise<string | undefined> {
    const nowMs = this.#runtime.clock.monotonicMs();
    let known = this.#known.get(node);
    if (known === undefined || nowMs - known.askedMs >= BELIEVED_MS) {
      known = this.#ask(node, nowMs);
      this.#known.set(node, known);
    }
    return known.isTold ? known.epoch : known.asking;
  }

  #ask(node: Commands, askedMs: number): Known {
    const asking = readInfo(node, "replication").then(
      (info) => info.get("master_replid"),
      () => undefined,
    );
    const known: Known = { askedMs, asking, epoch: undefined, isTold: false };
    void asking.then((epoch) => {
      known.epoch = epoch;
      known.isTold = true;
    });
    return known;
  }
}
