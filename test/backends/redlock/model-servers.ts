import type { Commands, Connect, Reply } from "../../../src/backends/redlock/client.js";
import { ACQUIRE, IDENTIFY, LOOK, RELEASE, RENEW } from "../../../src/backends/redlock/scripts.js";
import { OutcomeUnknownError, TenureError, UnavailableError } from "../../../src/core/errors.js";
import type { Runtime } from "../../../src/core/runtime.js";

/** What a model server does with a command. */
export interface Mood {
  /** Time to the server, and the same again back. Default 1 ms. */
  readonly delayMs?: number;
  /**
   * `refuse`: does nothing and says so. `lose-reply`: does it, and the connection breaks. `hang`:
   * does it and answers when the mood has passed.
   */
  readonly fault?: "refuse" | "lose-reply" | "hang";
}

/** What a server was asked. */
export type Asked = "acquire" | "renew" | "release" | "look" | "info";

interface Record {
  text: string;
  expiresMs: number;
}

let modelServers = 0;

/**
 * A server as the scripts see it, for the paths that no real server goes when it is told to. Each
 * client has a connection of its own, on which commands keep their order.
 */
export class ModelServer {
  readonly asked: Asked[] = [];
  /** Connections that clients have not closed. */
  connections = 0;
  readonly #runId = `run_id:${(modelServers += 1)}`;
  readonly #runtime: Runtime;
  readonly #records = new Map<string, Record>();
  #id: string | null = null;
  #mood: (asked: Asked) => Mood = () => ({});
  #hanging: (() => void)[] = [];

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  /** Changes how the server behaves; what hangs is carried out. */
  become(mood: Mood | ((asked: Asked) => Mood)): void {
    this.#mood = typeof mood === "function" ? mood : () => mood;
    for (const go of this.#hanging.splice(0)) go();
  }

  /** The holder that this server has for a lock. */
  holderOf(name: string): string | undefined {
    return this.#live(`tenure:redlock:lock:${name}`)?.text.split(" ")[0];
  }

  /** As a restart without data does. */
  forget(): void {
    this.#records.clear();
  }

  /** Sets a key as somebody else would. */
  put(name: string, text: string): void {
    const key = `tenure:redlock:lock:${name}`;
    this.#records.set(key, { text, expiresMs: Infinity });
  }

  /** A connection for one more client. `toServerMs` and back is added to the server's delay. */
  connect(toServerMs: () => number = () => 0): Connect {
    return async () => {
      let last: Promise<unknown> = Promise.resolve();
      const inOrder = (asked: Asked, run: () => Reply): Promise<Reply> => {
        const answer = last.then(() => this.#serve(asked, run, toServerMs()));
        last = answer.catch(() => undefined);
        return answer;
      };
      const commands: Commands = {
        isCluster: false,
        send: ([name]) => inOrder("info", () => (name === "GET" ? this.#id : this.#runId)),
        evaluate: (script, keys, args) =>
          inOrder(ASKED.get(script)!, () => this.#run(script, keys, args)),
      };
      this.connections += 1;
      return { commands, connected: Promise.resolve(), close: () => void (this.connections -= 1) };
    };
  }

  async #serve(asked: Asked, run: () => Reply, toServerMs: number): Promise<Reply> {
    const { delayMs = 1 } = this.#mood(asked);
    await this.#pass(delayMs + toServerMs);
    if (this.#mood(asked).fault === "hang") {
      await new Promise<void>((go) => void this.#hanging.push(go));
    }
    this.asked.push(asked);
    const { fault } = this.#mood(asked);
    if (fault === "refuse") throw new UnavailableError("the server is loading");
    const reply = run();
    if (fault === "lose-reply") throw new OutcomeUnknownError("the connection broke");
    await this.#pass(delayMs + toServerMs);
    return reply;
  }

  #run(script: string, keys: readonly string[], args: readonly string[]): Reply {
    const seen = (key: string): Reply => {
      const record = this.#live(key);
      return record === undefined ? 0 : [record.text, record.expiresMs - this.#nowMs()];
    };
    const begins = (key: string, text: string): boolean =>
      this.#live(key)?.text.startsWith(text) === true;
    switch (script) {
      case ACQUIRE: {
        const [holder, ttlMs, text] = args as [string, string, string];
        const key = keys[0]!;
        if (this.#live(key) !== undefined && !begins(key, `${holder} `)) return seen(key);
        this.#records.set(key, { text, expiresMs: this.#nowMs() + Number(ttlMs) });
        return 1;
      }
      case RENEW:
        return keys.map((key, i) => {
          if (!begins(key, `${args[2 * i]} `)) return seen(key);
          this.#live(key)!.expiresMs = this.#nowMs() + Number(args[2 * i + 1]);
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

  #live(key: string): Record | undefined {
    const record = this.#records.get(key);
    return record === undefined || record.expiresMs <= this.#nowMs() ? undefined : record;
  }

  #nowMs(): number {
    return this.#runtime.clock.monotonicMs();
  }

  #pass(ms: number): Promise<void> {
    return new Promise((resolve) => void this.#runtime.timers.after(ms, resolve));
  }
}

const ASKED: ReadonlyMap<string, Asked> = new Map([
  [ACQUIRE, "acquire"],
  [RENEW, "renew"],
  [RELEASE, "release"],
  [LOOK, "look"],
  [IDENTIFY, "info"],
]);

/** Faults of a model are errors of ours already. */
export const modelFaults = {
  explain: (error: unknown): TenureError => {
    if (error instanceof TenureError) return error;
    throw error;
  },
};
