/**
 * One run: a world with a store, a resource and some clients that work, what is done to them, and
 * what the checkers say of its history.
 */
import type { Backend } from "../core/backend.js";
import type { Manifest } from "../core/manifest.js";
import type { Runtime } from "../core/runtime.js";
import { Tenure } from "../core/tenure.js";
import type { FencingToken } from "../core/token.js";
import { checkBeliefs } from "./checkers/belief.js";
import { checkElections } from "./checkers/election.js";
import { linearViolations } from "./checkers/linear.js";
import { checkFence, checkOutcomes, checkRefusals, checkUpdates } from "./checkers/register.js";
import { checkStore, type StoreRules } from "./checkers/store.js";
import type { Violation } from "./checkers/violation.js";
import { heardSignal, type HeardSignal } from "./heard-signal.js";
import { Network, type NetworkOptions } from "./network.js";
import { SimulatedProcess, type ProcessOptions } from "./process.js";
import { remoteBackend, type FindStore } from "./remote.js";
import { Resource, type FenceMode, type ResourceOptions } from "./resource.js";
import { LeaseTable, type TableOptions } from "./stores/lease-table.js";
import { work, type Lock, type WorkerOptions } from "./worker.js";
import { World } from "./world.js";

/** A store in a simulation. */
export interface SimulatedStore<T extends FencingToken | undefined = FencingToken | undefined> {
  readonly find: FindStore<T>;
  readonly rules: StoreRules;
  /** How a client reaches it. Default: over the network, what `find` finds. */
  readonly backend?: (client: SimulatedProcess, network: Network) => Backend<T>;
}

/** How to make one. */
export type MakeStore = (world: World, network: Network) => SimulatedStore;

/** What stands between the code of a client and its world, wrong on purpose; see the variants. */
export interface Fitting {
  readonly runtime?: (runtime: Runtime, process: SimulatedProcess) => Runtime;
  readonly backend?: (
    backend: Backend<FencingToken | undefined>,
    process: SimulatedProcess,
  ) => Backend<FencingToken | undefined>;
  /** What workers take their leases from, instead of the tenure. */
  readonly lock?: (backend: Backend<FencingToken | undefined>, process: SimulatedProcess) => Lock;
}

/** Settings of a run. */
export interface SimulationOptions {
  readonly seed: number;
  readonly fence: FenceMode;
  /** Default: a single store that is polled. */
  readonly store?: MakeStore;
  readonly network?: NetworkOptions;
  readonly resource?: ResourceOptions;
  readonly fitting?: Fitting;
  /** Faults that do not strike, by their number in the plan of the run. Default none. */
  readonly leaveOut?: ReadonlySet<number>;
}

/** What came of a run. */
export interface Outcome {
  readonly seed: number;
  readonly fence: FenceMode;
  readonly grants: number;
  readonly faults: number;
  readonly lostUpdates: number;
  readonly staleRefused: number;
  readonly violations: readonly Violation[];
  readonly traceHash: string;
  readonly simulatedMs: number;
}

/** A client of a simulation. */
export interface Client {
  readonly process: SimulatedProcess;
  readonly tenure: Tenure<FencingToken | undefined>;
  /** What its workers take their leases from: the tenure, but for a variant's own lock. */
  readonly lock: Lock;
  /** What it hands to its calls as its signal; never aborted. */
  readonly heard: HeardSignal;
  /** What its store is and does. */
  readonly manifest: Manifest<FencingToken | undefined>;
  readonly storeId: string;
}

const DEFAULT_WORK: WorkerOptions = {
  key: "job",
  resource: "account",
  ttlMs: 10_000,
  waitMs: 60_000,
  thinkMs: [50, 2_000],
  restMs: [10, 1_000],
};

/** A single store on one server, which is called `store` unless told otherwise. */
export function singleStore(
  { name = "store", ...options }: TableOptions & { readonly name?: string } = {},
): MakeStore {
  return (world) => {
    const model = new LeaseTable(new SimulatedProcess(world, name), options);
    return {
      find: () => ({ server: model.server, model }),
      rules: { tokensMayRepeat: false, mayHaveTwoHolders: false },
    };
  };
}

/** A world with everything in it, to which a scenario adds clients and faults. */
export class Simulation {
  readonly world: World;
  readonly network: Network;
  readonly store: SimulatedStore;
  readonly resource: Resource;
  readonly clients: Client[] = [];
  /** Set at the end: workers take no further turn, and scenarios do nothing any more. */
  isOver = false;
  readonly #options: SimulationOptions;

  constructor(options: SimulationOptions) {
    this.#options = options;
    this.world = new World(options.seed, options.leaveOut);
    this.network = new Network(this.world, options.network);
    this.store = (options.store ?? singleStore())(this.world, this.network);
    const server = new SimulatedProcess(this.world, "resource");
    this.resource = new Resource(server, this.network, options.fence, options.resource);
  }

  /** A client with a tenure of its own, on the store of the simulation or another one. */
  async client(
    name: string,
    options: ProcessOptions = {},
    store: SimulatedStore = this.store,
  ): Promise<Client> {
    const process = new SimulatedProcess(this.world, name, options);
    const { fitting = {} } = this.#options;
    const remote =
      store.backend?.(process, this.network) ?? remoteBackend(process, this.network, store.find);
    const backend = fitting.backend?.(remote, process) ?? remote;
    const runtime = fitting.runtime?.(process.runtime, process) ?? process.runtime;
    const tenure = await Tenure.open(backend, runtime, { purpose: "efficiency" });
    const lock = fitting.lock?.(backend, process) ?? tenure;
    const { manifest, storeId } = backend;
    const client = { process, tenure, lock, heard: heardSignal(), manifest, storeId };
    this.clients.push(client);
    return client;
  }

  /** Sets a client to work. */
  work(client: Client, options: Partial<WorkerOptions> = {}): Promise<void> {
    const working = work(client.process, client.lock, this.resource, {
      ...DEFAULT_WORK,
      ...options,
      signal: client.heard.signal,
      isOver: () => this.isOver || options.isOver?.() === true,
    });
    working.catch((error: unknown) => this.world.fail(error));
    return working;
  }

  /** What the checkers say of what has happened so far. */
  outcome(): Outcome {
    const { history } = this.world;
    const { events } = history;
    const { fence } = this.#options;
    const updates = checkUpdates(events);
    const violations = [
      ...checkStore(events, this.store.rules),
      ...updates,
      ...(fence === "armed" ? checkFence(events) : []),
      ...(fence === "armed" ? linearViolations(events) : []),
      ...(fence === "armed" ? checkRefusals(events) : []),
      ...checkOutcomes(events),
      ...checkBeliefs(events),
      ...checkElections(events),
    ];
    return {
      seed: this.#options.seed,
      fence,
      grants: history.of("grant").length,
      faults: history.of("fault").length,
      lostUpdates: updates.length,
      staleRefused: history.of("arm", "read", "write").filter(({ accepted }) => !accepted).length,
      violations,
      traceHash: history.hash(),
      simulatedMs: this.world.nowMs,
    };
  }
}
