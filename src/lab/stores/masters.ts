/**
 * Independent Redis servers, and the real Redlock over them: the lab simulates the servers as its
 * scripts see them, and the network between.
 */
import type { Commands, Reply } from "../../backends/redlock/client.js";
import { redlockBackend } from "../../backends/redlock/index.js";
import { ACQUIRE, IDENTIFY, LOOK, RELEASE, RENEW } from "../../backends/redlock/scripts.js";
import type { Backend } from "../../core/backend.js";
import type { Timer } from "../../core/clock.js";
import { OutcomeUnknownError, TenureError } from "../../core/errors.js";
import type { EndReason } from "../history.js";
import type { Network } from "../network.js";
import { SimulatedProcess } from "../process.js";
import type { SimulatedStore } from "../simulation.js";
import type { World } from "../world.js";
import { Majority, type Recorder } from "./majority.js";

/** Independent servers, and what can be done to each; named `r1`, `r2`, … */
export interface RedlockMasters extends SimulatedStore<undefined> {
  readonly masters: readonly Master[];
}

const PREFIX = "tenure:redlock:lock:";
const WHAT: ReadonlyMap<string, string> = new Map([
  [ACQUIRE, "acquire"],
  [RENEW, "renew"],
  [RELEASE, "release"],
  [LOOK, "look"],
  [IDENTIFY, "identify"],
]);

/** As many servers as asked for, without a disk. */
export function redlockMasters(world: World, network: Network, servers = 5): RedlockMasters {
  const majority = new Majority(world, () => masters);
  const masters = Array.from({ length: servers }, (_, i) => {
    return new Master(world, `r${i + 1}`, (why) => majority.look(why));
  });
  return {
    masters,
    find: () => {
      throw new Error("there is no one server of Redlock");
    },
    rules: { tokensMayRepeat: true, mayHaveTwoHolders: true },
    backend: (client) => backendOf(client, network, masters),
  };
}

function backendOf(
  client: SimulatedProcess,
  network: Network,
  masters: readonly Master[],
): Backend<undefined> {
  const connect = (master: Master) => async () => {
    const ask = (what: string, step: () => Reply): Promise<Reply> =>
      network.ask(client, master.server, what, step);
    const commands: Commands = {
      isCluster: false,
      send: (args) => ask(args[0]!.toLowerCase(), () => master.tell(args)),
      evaluate: (script, keys, args) =>
        ask(WHAT.get(script)!, () => master.run(script, keys, args)),
    };
    return { commands, connected: Promise.resolve(), close: () => undefined };
  };
  const explain = (error: unknown): TenureError =>
    error instanceof TenureError ? error : new OutcomeUnknownError(String(error));
  const servers = masters.map(connect);
  const storeId = "masters";
  return redlockBackend({ servers, faults: { explain }, runtime: client.runtime, storeId });
}

interface Kept {
  readonly text: string;
  /** On the server's wall clock. */
  readonly expiresMs: number;
}

/** One server. */
export class Master implements Recorder {
  readonly name: string;
  readonly #world: World;
  readonly #changed: (why?: EndReason) => void;
  readonly #records = new Map<string, Kept>();
  #server: SimulatedProcess;
  #id: string | undefined;
  #start: { readonly timer: Timer; readonly atMs: number } | undefined;

  constructor(world: World, name: string, changed: (why?: EndReason) => void) {
    this.name = name;
    this.#world = world;
    this.#changed = changed;
    this.#server = new SimulatedProcess(world, name);
  }

  /** The process that runs now, or ran last. */
  get server(): SimulatedProcess {
    return this.#server;
  }

  /**
   * Is killed, forgets everything, and starts again once its machine's wall clock says that
   * `awayMs` have passed.
   */
  crash(awayMs: number): void {
    this.stop();
    this.#startAt(this.#world.nowMs + awayMs);
  }

  /** Is killed, and forgets everything, until it is started. */
  stop(): void {
    this.#server.kill();
    this.#records.clear();
    this.#changed("forgotten");
  }

  /** Starts again at once, if it is down. */
  start(): void {
    if (!this.#server.isAlive) this.#startAt(this.#world.nowMs);
  }

  /** The wall clock of its machine is set, whether it runs or not. */
  jumpWall(ms: number): void {
    this.#server.jumpWall(ms);
    if (this.#start !== undefined) this.#startAt(this.#start.atMs - ms);
  }

  /** What a script does, in one step. */
  run(script: string, keys: readonly string[], args: readonly string[]): Reply {
    const reply = this.#step(script, keys, args);
    this.#changed(script === RELEASE ? "released" : undefined);
    return reply;
  }

  /** What it answers to a command: all that the backend sends are questions. */
  tell([command, , , pattern = ""]: readonly string[]): Reply {
    if (command === "INFO") return `run_id:${this.name}`;
    if (command !== "SCAN") throw new Error(`the masters of the lab know no ${command}`);
    const beginning = pattern.slice(0, -1).replaceAll(/\\(.)/g, "$1");
    const isShown = (key: string): boolean =>
      key.startsWith(beginning) && this.#live(key) !== undefined;
    return ["0", [...this.#records.keys()].filter(isShown)];
  }

  /** Names of locks that it has records of, expired ones among them. */
  get names(): readonly string[] {
    return [...this.#records.keys()].map((key) => key.slice(PREFIX.length));
  }

  /** The record of a lock and how long it lives, if it does. */
  recordOf(name: string): { readonly text: string; readonly leftMs: number } | undefined {
    const key = `${PREFIX}${name}`;
    const kept = this.#live(key);
    return kept === undefined ? undefined : { text: kept.text, leftMs: this.#leftMs(kept) };
  }

  #step(script: string, keys: readonly string[], args: readonly string[]): Reply {
    const seen = (key: string): Reply => {
      const kept = this.#live(key);
      return kept === undefined ? 0 : [kept.text, this.#leftMs(kept)];
    };
    const begins = (key: string, text: string): boolean =>
      this.#live(key)?.text.startsWith(text) === true;
    const expiresMs = (ttlMs: string): number => this.#nowMs() + Number(ttlMs);
    switch (script) {
      case ACQUIRE: {
        const [holder, ttlMs, text] = args as [string, string, string];
        const key = keys[0]!;
        if (this.#live(key) !== undefined && !begins(key, `${holder} `)) return seen(key);
        this.#records.set(key, { text, expiresMs: expiresMs(ttlMs) });
        return 1;
      }
      case RENEW:
        return keys.map((key, i) => {
          if (!begins(key, `${args[2 * i]} `)) return seen(key);
          const { text } = this.#live(key)!;
          this.#records.set(key, { text, expiresMs: expiresMs(args[2 * i + 1]!) });
          return 1;
        });
      case RELEASE:
        return keys.map((key, i) => Number(begins(key, args[i]!) && this.#records.delete(key)));
      case LOOK:
        return keys.map(seen);
      default:
        return (this.#id ??= args[0]!);
    }
  }

  #startAt(atMs: number): void {
    this.#start?.timer.cancel();
    const timer = this.#world.at(atMs, () => {
      this.#start = undefined;
      this.#server = new SimulatedProcess(this.#world, this.name);
      this.#world.history.add({ kind: "fault", what: "restart", target: this.name });
    });
    this.#start = { timer, atMs };
  }

  #live(key: string): Kept | undefined {
    const kept = this.#records.get(key);
    return kept === undefined || this.#leftMs(kept) <= 0 ? undefined : kept;
  }

  #leftMs({ expiresMs }: Kept): number {
    return Math.ceil(expiresMs - this.#nowMs());
  }

  #nowMs(): number {
    return this.#server.runtime.clock.wallMs();
  }
}
