/**
 * The resource that the lock protects: a register on a server of its own, with a fence or without.
 *
 * - `none`: every write is taken, as most systems do.
 * - `naive`: a write carries its token, and one lower than the highest **written** is refused.
 * - `armed`: the real fence of `src/fences`, over the network.
 *
 * A value is the number of the write that left it, so that a history shows whether each write was
 * made from the value before it: one that was not has wiped out somebody's update.
 */
import { OutcomeUnknownError, UnavailableError } from "../core/errors.js";
import type { TokenBearer } from "../core/token.js";
import { createFence } from "../fences/fence.js";
import { memoryStore, type Cell, type Entry, type ReadCell } from "../fences/memory/index.js";
import type { ArmedHandle, FenceStore } from "../fences/contract.js";
import type { FenceRequest, MarkRecord } from "../fences/decide.js";
import type { Fact } from "./history.js";
import type { Network } from "./network.js";
import type { SimulatedProcess } from "./process.js";

/** How the resource is protected. */
export type FenceMode = "none" | "naive" | "armed";

/** What the holder of a lease does with a resource. */
export interface Access {
  read(): Promise<number>;
  /** Writes a new value made from `base`. */
  write(base: number): Promise<number>;
}

/** How long a client waits for an answer of the resource, milliseconds. */
const PATIENCE_MS = 5_000;

/** What is wrong with a naive or armed resource on purpose; see the variants. */
export interface ResourceOptions {
  /** Stands between the clients and the store of marks. */
  readonly wrap?: (
    store: FenceStore<Cell<number>, ReadCell<number>>,
  ) => FenceStore<Cell<number>, ReadCell<number>>;
  /** The store of marks and values to use instead of the fence's own. */
  readonly store?: (
    entries: Map<string, Entry<number>>,
    server: SimulatedProcess,
  ) => FenceStore<Cell<number>, ReadCell<number>>;
}

/** The value that a client's next write would leave. */
interface NextWrite {
  value?: number;
}

/** A server with registers. */
export class Resource {
  readonly server: SimulatedProcess;
  readonly mode: FenceMode;
  readonly #network: Network;
  readonly #entries = new Map<string, Entry<number>>();
  readonly #plain = new Map<string, { value: number; mark: bigint }>();
  readonly #store: FenceStore<Cell<number>, ReadCell<number>>;
  #lastValue = 0;

  constructor(
    server: SimulatedProcess,
    network: Network,
    mode: FenceMode,
    options: ResourceOptions = {},
  ) {
    this.server = server;
    this.mode = mode;
    this.#network = network;
    const store = this.#recorded((options.store ?? memoryStore)(this.#entries, server));
    this.#store = options.wrap?.(store) ?? store;
  }

  /** The value as it is now. */
  valueOf(resource: string): number {
    const plain = this.#plain.get(resource)?.value;
    return plain ?? this.#entries.get(resource)?.value ?? 0;
  }

  /** Loses the mark and keeps the value: a fence's row that somebody deleted. */
  loseMark(resource: string): void {
    if (!this.server.world.strikes(`the mark of ${resource} is deleted`)) return;
    const entry = this.#entries.get(resource);
    if (entry !== undefined) this.#entries.set(resource, { ...entry, record: null });
    const plain = this.#plain.get(resource);
    if (plain !== undefined) plain.mark = 0n;
    this.server.world.history.add({ kind: "fault", what: "lose-mark", target: resource });
  }

  /** What a holder works with; under `armed` it has raised the mark first. */
  async open(client: SimulatedProcess, bearer: TokenBearer, resource: string): Promise<Access> {
    if (this.mode !== "armed") return this.#unfenced(client, bearer, resource);
    const next: NextWrite = {};
    const fence = createFence(this.#remote(client, next), client.runtime);
    return this.#access(await fence.arm(bearer, resource), next);
  }

  /** Several at once: under `armed` all their marks are raised before the first is touched. */
  async openAll(
    client: SimulatedProcess,
    bearer: TokenBearer,
    resources: readonly string[],
  ): Promise<readonly Access[]> {
    if (this.mode !== "armed") {
      return resources.map((resource) => this.#unfenced(client, bearer, resource));
    }
    const next: NextWrite = {};
    const fence = createFence(this.#remote(client, next), client.runtime);
    const handles = await fence.armAll(bearer, resources);
    return handles.map((handle) => this.#access(handle, next));
  }

  #access(handle: ArmedHandle<Cell<number>, ReadCell<number>>, next: NextWrite): Access {
    return {
      read: () => handle.read((cell) => cell.get() ?? 0),
      write: (base) => {
        const value = ++this.#lastValue;
        next.value = value;
        return handle.write((cell) => {
          this.#writing = { base, value };
          cell.set(value);
          return value;
        });
      },
    };
  }

  /** What the work of the write under way leaves: for its fact. */
  #writing: { readonly base: number; readonly value: number } | undefined;

  #unfenced(client: SimulatedProcess, bearer: TokenBearer, resource: string): Access {
    const ask = <R>(what: string, step: () => R): Promise<R> =>
      this.#network.ask(client, this.server, what, step, PATIENCE_MS);
    const about = { resource, client: client.name, scope: bearer.storeId, holder: bearer.holder };
    const state = (): { value: number; mark: bigint } => {
      const found = this.#plain.get(resource) ?? { value: 0, mark: 0n };
      this.#plain.set(resource, found);
      return found;
    };
    const facts = { ...about, token: String(bearer.token), arm: 0, n: 0 };
    return {
      read: () =>
        ask("read", () => {
          const { value } = state();
          this.#add({ kind: "read", ...facts, accepted: true, value });
          return value;
        }),
      write: (base) => {
        const value = ++this.#lastValue;
        return ask("write", () => {
          const now = state();
          const isStale = this.mode === "naive" && bearer.token < now.mark;
          const wrote = { kind: "write", ...facts, base, value } as const;
          if (isStale) {
            this.#add({ ...wrote, accepted: false, why: `${bearer.token} < ${now.mark}` });
            throw new UnavailableError("a newer token has written", { lock: bearer.name });
          }
          if (bearer.token > now.mark) now.mark = bearer.token;
          now.value = value;
          this.#add({ ...wrote, accepted: true });
          return value;
        });
      },
    };
  }

  /** The fence's store, reached over the network. */
  #remote(
    client: SimulatedProcess,
    next: NextWrite,
  ): FenceStore<Cell<number>, ReadCell<number>> {
    const ask = <R>(what: string, step: () => Promise<R>): Promise<R> =>
      this.#network.ask(
        client,
        this.server,
        what,
        () => {
          this.#asking = client.name;
          return step();
        },
        PATIENCE_MS,
      );
    const store = this.#store;
    return {
      kind: store.kind,
      work: store.work,
      load: (resource, call) => ask("load mark", () => store.load(resource, call)),
      arm: (request, call) =>
        this.#told(client, request, {}, ask("arm", () => store.arm(request, call))),
      read: (request, work, call) =>
        this.#told(client, request, {}, ask("read", () => store.read(request, work, call))),
      write: (request, work, call) => {
        const asking = ask("write", () => store.write(request, work, call));
        return this.#told(client, request, { ...next }, asking);
      },
      rebase: (request, call) => ask("rebase", () => store.rebase(request, call)),
    };
  }

  #asking = "?";
  #asked = 0;

  /** Notes an operation as its client sees it. */
  async #told<A extends { readonly accepted: boolean; readonly why?: string }>(
    client: SimulatedProcess,
    { op, resource, token, holder, arm, n }: FenceRequest,
    leaves: { readonly value?: number },
    asking: Promise<A>,
  ): Promise<A> {
    const about = { resource, client: client.name, id: ++this.#asked };
    const numbers = { token: String(token), holder, arm, n };
    this.#add({ kind: "asked", ...about, op, ...numbers, ...leaves });
    try {
      const answer = await asking;
      const why = answer.why === undefined ? {} : { why: answer.why };
      const outcome = answer.accepted ? "accepted" : "refused";
      const result = (answer as { readonly result?: unknown }).result;
      const saw = op === "read" && typeof result === "number" ? { value: result } : {};
      this.#add({ kind: "answered", ...about, outcome, ...why, ...saw });
      return answer;
    } catch (error) {
      this.#add({ kind: "answered", ...about, outcome: "unknown" });
      throw error;
    }
  }

  /** Notes what the store decided, in the order of its decisions. */
  #recorded(
    inner: FenceStore<Cell<number>, ReadCell<number>>,
  ): FenceStore<Cell<number>, ReadCell<number>> {
    const note = (
      request: FenceRequest,
      answer: { readonly accepted: boolean; readonly why?: string },
      client: string,
      more: { readonly value?: number; readonly base?: number } = {},
    ): void => {
      const { op, resource, scope, token, holder, arm, n } = request;
      const facts = { resource, scope: scope.storeId, token: String(token), holder, arm, n };
      const why = answer.why === undefined ? {} : { why: answer.why };
      const { accepted } = answer;
      this.#add({ kind: op, client, ...facts, accepted, ...why, ...more });
    };
    return {
      ...inner,
      arm: async (request, call) => {
        const client = this.#asking;
        const verdict = await inner.arm(request, call);
        note(request, verdict, client);
        return verdict;
      },
      read: async (request, work, call) => {
        const client = this.#asking;
        const ran = await inner.read(request, work, call);
        const value = this.#entries.get(request.resource)?.value ?? 0;
        note(request, ran, client, ran.accepted ? { value } : {});
        return ran;
      },
      write: async (request, work, call) => {
        const client = this.#asking;
        this.#writing = undefined;
        const ran = await inner.write(request, work, call);
        note(request, ran, client, this.#writing);
        return ran;
      },
    };
  }

  #add(fact: Fact): void {
    this.server.world.history.add(fact);
  }

  /** The mark, for checks. */
  recordOf(resource: string): MarkRecord | undefined {
    return this.#entries.get(resource)?.record ?? undefined;
  }
}

/** Whether a write that failed with this may have landed. */
export function mayHaveLanded(error: unknown): boolean {
  return error instanceof OutcomeUnknownError;
}
