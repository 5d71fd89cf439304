import type { Sessions } from "../../core/backend.js";
import type { Store } from "./store.js";

/** Sessions as leases of etcd, whose TTL is in whole seconds and may be raised by the server. */
export function etcdSessions(opened: () => Store): Sessions {
  return {
    async open(ttlMs, { timeoutMs }) {
      const { gateway, sessionTtlMs } = opened();
      const wanted = { TTL: String(Math.ceil(ttlMs / 1_000)) };
      // A copy that is carried out late makes a lease that nobody uses, and ends by itself.
      const options = { during: "open a session", timeoutMs };
      const { body } = await gateway.ask("lease/grant", wanted, options);
      const { ID, TTL } = body as { readonly ID: string; readonly TTL: string };
      const kept = { id: ID, ttlMs: Number(TTL) * 1_000 };
      sessionTtlMs.set(kept.id, kept.ttlMs);
      return kept;
    },
    async keepAlive(id, { timeoutMs }) {
      const store = opened();
      const options = { during: "keep a session alive", isUrgent: true, timeoutMs };
      const { body, refused } = await store.gateway.ask("lease/keepalive", { ID: id }, options);
      const { TTL } = body as { readonly TTL?: string };
      if (refused === undefined && Number(TTL ?? 0) > 0) return "alive";
      forget(store, id);
      return "gone";
    },
    async close(id, { timeoutMs }) {
      const store = opened();
      const options = { during: "close a session", timeoutMs };
      await store.gateway.ask("lease/revoke", { ID: id }, options);
      forget(store, id);
    },
  };
}

function forget(store: Store, id: string): void {
  store.sessionTtlMs.delete(id);
  store.attempts.endAll(id);
}
