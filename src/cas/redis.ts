/**
 * Compare-and-swap on Redis: a hash per key, of version `v` and value `d`, without a TTL.
 *
 * A version is the last one + 1, or the server's time in microseconds if that is more: a key that
 * was lost and made again has not the version that somebody read before.
 *
 * A caller's client may send a request again when its connection broke, whether or not the first
 * copy had arrived. So each write has an id, and the hash keeps those of the last writes, `h`: a
 * copy that comes second finds the key changed, and sees that it was the first that did it.
 */
import { Calls } from "../core/call.js";
import { UnavailableError, type TenureError } from "../core/errors.js";
import type { Cas } from "./contract.js";
import { casOver, type UpdateRuntime } from "./updating.js";

/** A reply: maps are flat arrays, bytes are text. */
export type RedisValue = string | number | null | readonly RedisValue[];

/** What is needed of a client. */
export interface RedisCasParts {
  readonly runtime: UpdateRuntime;
  readonly commands: {
    evaluate(script: string, keys: readonly string[], args: readonly string[]): Promise<RedisValue>;
  };
  explain(error: unknown, failure: { during: string; backend: string }): TenureError;
  readonly prefix: string;
  readonly timeoutMs: number;
  readonly maxBytes: number;
  close(): void;
}

/** KEYS value. Answers version and value, or two nils. */
const READ = "return redis.call('HMGET', KEYS[1], 'v', 'd')";

/** So many ids of writes are kept with a value. A copy comes with the next connection, or never. */
const WRITES_KEPT = 32;

/**
 * KEYS value; ARGV version or nothing, value, id of the write, how many ids to keep. Answers 1 or
 * 0, and the version: the one that was written, or the one there is.
 */
const WRITE = `
local m = redis.call('HMGET', KEYS[1], 'v', 'h')
local v, h = m[1], m[2] or ''
if (v or '') ~= ARGV[1] then
  local at = string.find(h, ARGV[3] .. ':', 1, true)
  if at then return {1, string.match(h, '^%d+', at + #ARGV[3] + 1)} end
  return {0, v or ''}
end
local t = redis.call('TIME')
local floor = t[1] * 1000000 + t[2]
local n = tonumber(v or '0') + 1
if n < floor then n = floor end
local version = string.format('%.0f', n)
h = h .. ARGV[3] .. ':' .. version .. ' '
local _, kept = string.gsub(h, ' ', '')
if kept > tonumber(ARGV[4]) then h = string.match(h, '^%S+ (.*)$') end
redis.call('HSET', KEYS[1], 'v', version, 'd', ARGV[2], 'h', h)
return {1, version}
`;

const BACKEND = "redis";

/** Values through an open client. */
export function redisCas(parts: RedisCasParts): Cas {
  const { runtime, prefix, maxBytes } = parts;
  const calls = new Calls(runtime.timers, parts.timeoutMs, BACKEND);
  let isOpen = true;
  const ask = async (
    during: string,
    script: string,
    key: string,
    ...args: string[]
  ): Promise<readonly RedisValue[]> => {
    if (!isOpen) {
      const about = { backend: BACKEND, retryable: false };
      throw new UnavailableError(`cannot ${during}: the store is closed`, about);
    }
    const reply = calls.run(during, undefined, () =>
      parts.commands.evaluate(script, [prefix + key], args).catch((error: unknown) => {
        throw parts.explain(error, { during, backend: BACKEND });
      }),
    );
    return (await reply) as readonly RedisValue[];
  };
  return casOver({
    backend: BACKEND,
    maxBytes,
    runtime,
    read: async (key) => {
      const [version, value] = await ask("read a value", READ, key);
      if (typeof version !== "string" || typeof value !== "string") return null;
      return { value, version: BigInt(version) };
    },
    write: async (key, text, expected) => {
      const [isWritten, seen] = await ask(
        "write a value",
        WRITE,
        key,
        String(expected ?? ""),
        text,
        runtime.random.id(),
        String(WRITES_KEPT),
      );
      const version = seen === "" ? null : BigInt(String(seen));
      if (isWritten === 1) return { isWritten: true, version: version! };
      return { isWritten: false, version };
    },
    close: async () => {
      if (!isOpen) return;
      isOpen = false;
      calls.endAll();
      parts.close();
    },
  });
}
