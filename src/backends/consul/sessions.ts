/**
 * Sessions that only their TTL ends, whatever the health of the agent.
 *
 * Why the answer to a renewal counts, although the leader keeps a session's time in its memory
 * alone: a new leader starts the time of every session anew, at two TTLs, when it takes over. One
 * that was deposed and does not know it may still answer, but only for less than the time that an
 * election takes; and the look at the record, which follows every renewal, it cannot answer.
 */
import type { Call, Sessions } from "../../core/backend.js";
import { ArgumentRangeError } from "../../core/errors.js";
import type { Client, During } from "./client.js";

/** "Invalid Session TTL '500000000', must be between [10s=24h0m0s]" */
const OUT_OF_RANGE = /Invalid Session TTL .* must be between \[([^=\]]+)=([^\]]+)\]/;

/** The sessions of a backend. */
export function sessionsOf(client: Client, lockDelayMs: number): Sessions {
  return {
    async open(ttlMs, call) {
      try {
        const during = bounded(call, "open a session");
        return { id: await client.openSession({ ttlMs, lockDelayMs }, during), ttlMs };
      } catch (error) {
        throw explain(error, ttlMs);
      }
    },
    keepAlive: (id, call) => client.keepSession(id, bounded(call, "renew a session")),
    close: (id, call) => client.closeSession(id, bounded(call, "close a session")),
  };
}

function bounded({ signal, timeoutMs }: Call, during: string): During {
  return { signal, timeoutMs, during, lane: "renewals" };
}

/** The servers may have another minimum than the backend was told. */
function explain(error: unknown, ttlMs: number): unknown {
  if (!(error instanceof Error)) return error;
  const [, least, most] = OUT_OF_RANGE.exec(error.message) ?? [];
  if (least === undefined) return error;
  const must = `between ${least} and ${most}, as the servers are set (session_ttl_min)`;
  return new ArgumentRangeError("ttl", ttlMs, must);
}
