/**
 * One step of the fence as its work sees it: commands are noted while the work runs, and sent
 * together with the check.
 *
 * They are sent when the work has ended, or when it awaits the first reply: nothing can be added
 * then. So work that fails before it has awaited a reply leaves nothing behind.
 */
import { ArgumentTypeError } from "../../core/errors.js";
import type { RedisValue } from "./client.js";

/** The reply of a command that is not sent yet; awaiting it sends the step. */
export interface RedisReply<T = RedisValue> extends PromiseLike<T> {
  then<A = T, B = never>(
    resolved?: ((value: T) => A | PromiseLike<A>) | null,
    rejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B>;
}

/** What the work of a read or write is given. */
export interface RedisTx {
  /** A key for data of this resource, in the slot of its mark. */
  key(suffix: string): string;
  /**
   * Notes a command: `tx.call("SET", key, value)`. Its first argument is taken for its key; for a
   * command with none, or with several, in a cluster, use {@link RedisTx.script}.
   */
  call<T extends RedisValue = RedisValue>(
    command: string,
    ...args: readonly (string | number | bigint)[]
  ): RedisReply<T>;
  /** Notes a Lua script, with its KEYS and ARGV. */
  script<T extends RedisValue = RedisValue>(
    lua: string,
    keys: readonly string[],
    args?: readonly (string | number | bigint)[],
  ): RedisReply<T>;
}

/** What was noted: scripts, keys and arguments as `step` of `scripts.ts` wants them. */
export interface Noted {
  readonly scripts: readonly string[];
  readonly keys: readonly string[];
  readonly args: readonly string[];
}

/** Notes commands until they are sent. */
export class Notebook {
  readonly tx: RedisTx;
  readonly #send: (noted: Noted) => Promise<readonly RedisValue[]>;
  readonly #scripts: string[] = [];
  readonly #keys: string[] = [];
  readonly #args: string[] = [];
  #count = 0;
  #sent: Promise<readonly RedisValue[]> | undefined;
  #ended = false;

  constructor(
    key: (suffix: string) => string,
    send: (noted: Noted) => Promise<readonly RedisValue[]>,
  ) {
    this.#send = send;
    this.tx = {
      key,
      call: (command, ...args) => {
        const words = [command, ...args].map(toText);
        if (words[1] !== undefined) this.#keys.push(words[1]);
        return this.#note("c", String(words.length), ...words);
      },
      script: (lua, keys, args = []) => {
        if (typeof lua !== "string") throw new ArgumentTypeError("lua", lua, "a script's text");
        const known = this.#scripts.indexOf(lua);
        const nth = known < 0 ? this.#scripts.push(lua) : known + 1;
        const [words, more] = [keys.map(toText), args.map(toText)];
        this.#keys.push(...words);
        const counted = [String(words.length), ...words, String(more.length), ...more];
        return this.#note("e", String(nth), ...counted);
      },
    };
  }

  get isSent(): boolean {
    return this.#sent !== undefined;
  }

  /** Sends what was noted, once. Rejects with what came of the step. */
  send(): Promise<readonly RedisValue[]> {
    this.#sent ??= this.#send({ scripts: this.#scripts, keys: this.#keys, args: this.#args });
    return this.#sent;
  }

  end(): void {
    this.#ended = true;
  }

  #note<T extends RedisValue>(...words: readonly string[]): RedisReply<T> {
    if (this.#ended) throw new TypeError("this read or write has ended");
    if (this.#sent !== undefined) {
      throw new TypeError("this step was sent at its first awaited reply: note commands before");
    }
    const place = this.#count++;
    this.#args.push(...words);
    return {
      then: (resolved, rejected) =>
        this.send()
          .then((replies) => (replies[place] ?? null) as T)
          .then(resolved, rejected),
    };
  }
}

function toText(value: unknown): string {
  if (typeof value === "string") return value;
  if (typeof value === "bigint" || Number.isFinite(value)) return String(value);
  throw new ArgumentTypeError("argument", value, "text, a finite number or a bigint");
}
