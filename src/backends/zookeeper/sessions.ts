/**
 * Sessions for leases.
 *
 * A member of an ensemble answers a ping by itself, and tells its leader of it half a tick later,
 * or never:
 *
 * 1. A holder pings; its server answers, and is cut off from the leader before it has told.
 * 2. The holder counts its TTL from that ping.
 * 3. The leader counts the session's time-out from what it was last told: the ping before.
 *
 * With equal times the leader would let the next one in up to one renewal before the holder's
 * deadline. So the session lasts a third longer than the TTL, which is how often a lease is renewed
 * at most; each renewal also asks the leader (`sync`), which shows that what was told before has
 * arrived. A server alone counts by itself, and gets the TTL as it is.
 *
 * Nothing here pings by itself: a holder that has stopped to renew is let go.
 */
import type { Sessions } from "../../core/backend.js";
import type { Faults, ZkClient, ZkSession } from "./client.js";
import type { Places } from "./places.js";

/** How much of a call's time looking for a server to close a session at may take. */
const CLOSE_SHARE = 0.75;

/** How TTLs and time-outs of sessions go together, in an ensemble of so many voters. */
export function timing(voters: number): {
  /** Time-out to ask for. */
  readonly sessionOf: (ttlMs: number) => number;
  /** TTL that a session carries. */
  readonly ttlOf: (sessionMs: number) => number;
} {
  if (voters === 1) return { sessionOf: (ttlMs) => ttlMs, ttlOf: (sessionMs) => sessionMs };
  return {
    sessionOf: (ttlMs) => Math.ceil((ttlMs * 4) / 3),
    ttlOf: (sessionMs) => Math.floor((sessionMs * 3) / 4),
  };
}

/** The sessions of the backend. */
export function leaseSessions(
  client: ZkClient,
  faults: Faults,
  opened: () => { readonly facts: { readonly voters: number }; readonly places: Places },
): Sessions {
  return {
    open: async (ttlMs, call) => {
      const { facts, places } = opened();
      const { sessionOf, ttlOf } = timing(facts.voters);
      let session: ZkSession;
      try {
        session = await client.open(sessionOf(ttlMs), call);
      } catch (error) {
        throw faults.explain(error, { during: "open a session", backend: "zookeeper" });
      }
      if (call.signal.aborted) {
        // Nobody waits for it any more.
        await session.close();
        throw call.signal.reason;
      }
      places.add(session);
      return { id: session.id, ttlMs: Math.min(ttlMs, ttlOf(session.timeoutMs)) };
    },
    keepAlive: async (id, call) => {
      const { places } = opened();
      const session = places.session(id);
      if (session === undefined) return "gone";
      const answer = await session.ping(call).catch((error: unknown) => {
        throw faults.explain(error, { during: "keep a session", backend: "zookeeper" });
      });
      if (answer === "gone") places.drop(id);
      return answer;
    },
    close: async (id, { timeoutMs }) => {
      const { places } = opened();
      const session = places.session(id);
      places.drop(id);
      // Nobody is to wait in vain: what cannot be closed now ends by its time-out.
      await session?.close(timeoutMs * CLOSE_SHARE);
    },
  };
}
