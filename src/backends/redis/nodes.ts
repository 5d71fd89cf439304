/** The primaries of a cluster, by slot. */
import type { Timers } from "../../core/clock.js";
import { UnavailableError } from "../../core/errors.js";
import type { Commands, Reply } from "./client.js";
import { slotOf } from "./keys.js";
import { elements } from "./replies.js";

/** How long a node may take to say who it is, milliseconds. */
const PATIENCE_MS = 500;

/** Slots in a row, and the id of their primary. */
interface Range {
  readonly from: number;
  readonly to: number;
  readonly node: string;
}

/** Which node has which slots. */
export class Nodes {
  readonly #nodes: ReadonlyMap<string, Commands>;
  readonly #ranges: readonly Range[];

  private constructor(nodes: ReadonlyMap<string, Commands>, ranges: readonly Range[]) {
    this.#nodes = nodes;
    this.#ranges = ranges;
  }

  /** Asks every primary who it is; one that does not answer soon is left out. */
  static async read(cluster: Commands, timers: Timers): Promise<Nodes> {
    const primaries = await cluster.primaries();
    const nodes = new Map<string, Commands>();
    let slots: Reply = null;
    const asking = primaries.map(async (commands) => {
      const [id, told] = await Promise.all([
        commands.send(["CLUSTER", "MYID"]),
        commands.send(["CLUSTER", "SLOTS"]),
      ]);
      nodes.set(String(id), commands);
      slots = told;
    });
    await within(timers, PATIENCE_MS, Promise.allSettled(asking));
    const ranges = elements(slots).map((range) => {
      const [from, to, primary] = elements(range);
      return { from: Number(from), to: Number(to), node: String(elements(primary)[2]) };
    });
    return new Nodes(nodes, ranges);
  }

  /** The node that has a key; undefined when it was not there to say so. */
  find(key: string): Commands | undefined {
    const slot = slotOf(key);
    const range = this.#ranges.find(({ from, to }) => from <= slot && slot <= to);
    return range === undefined ? undefined : this.#nodes.get(range.node);
  }

  /** @throws UnavailableError when the node of the key was not there to say so. */
  commandsOf(key: string): Commands {
    const node = this.find(key);
    if (node !== undefined) return node;
    throw new UnavailableError("the node of the Redis Cluster that has the key does not answer", {
      backend: "redis",
    });
  }
}

/** What came of a promise, or undefined when that takes too long. */
export async function within<T>(
  timers: Timers,
  limitMs: number,
  promise: Promise<T>,
): Promise<T | undefined> {
  let cancel = (): void => undefined;
  const late = new Promise<undefined>((resolve) => {
    const timer = timers.after(limitMs, () => resolve(undefined), { ref: false });
    cancel = () => timer.cancel();
  });
  return Promise.race([promise, late]).finally(cancel);
}
