import type { Call } from "../../core/backend.js";
import { must } from "../broken-promise.js";
import { always, withPower, type ConformanceCase } from "../case.js";
import type { Trial } from "../trial.js";

const SETTLES_MS = 5_000;
const HANDLE_LOOKS = 50;

/** Opening, closing, and calls that nobody waits for any more. */
export const lifetimeCases: readonly ConformanceCase[] = [
  {
    id: "store-id-stable",
    title: "all clients of one store, also later ones, see one storeId",
    applies: always,
    async run(trial) {
      const first = await trial.connect();
      const { storeId } = first;
      must(storeId.length > 0, "storeId", "it is empty");
      const second = await trial.connect();
      must(second.storeId === storeId, "storeId", `two clients see ${storeId}, ${second.storeId}`);
      await first.close();
      await second.close();
      const third = await trial.connect();
      must(third.storeId === storeId, "storeId", `a later client sees ${third.storeId}`);
    },
  },
  {
    id: "store-id-restart",
    title: "the storeId survives a restart of the store",
    applies: withPower("restart"),
    async run(trial) {
      const { storeId } = await trial.connect();
      await trial.store.restart?.();
      const after = (await trial.connect()).storeId;
      must(after === storeId, "storeId", `${storeId} became ${after}`);
    },
  },
  {
    id: "leases-outlive-client",
    title: "closing a client ends nobody's lease, not even its own",
    applies: ({ manifest }) =>
      manifest.ttlScope === "session" ? "a session's leases end with its client" : true,
    async run(trial) {
      const [a, b] = await trial.clients();
      await a.take(trial.name("a"));
      const own = await b.take(trial.name("b"));
      await a.backend.close();
      must((await b.renew(own))[0] === "renewed", "close", "another client's lease is lost");
      await b.refused(trial.name("a"));
    },
  },
  {
    id: "close-twice",
    title: "a second close is harmless, and a closed backend refuses at once, to be opened too",
    applies: always,
    async run(trial) {
      const client = await trial.client();
      await client.take(trial.name());
      await trial.within(SETTLES_MS, client.backend.close(), "close");
      await trial.within(SETTLES_MS, client.backend.close(), "a second close");
      const late = client.acquire(trial.name("late")).then(
        () => "granted",
        () => "refused",
      );
      const outcome = await trial.within(SETTLES_MS, late, "acquire after close");
      must(outcome === "refused", "acquire after close", "it did not reject");
      const { backend } = client;
      if (backend.open === undefined) return;
      const again = backend.open(client.call()).then(
        () => "opened",
        () => "refused",
      );
      const opened = await trial.within(SETTLES_MS, again, "open after close");
      must(opened === "refused", "open after close", "it did not reject");
    },
  },
  {
    id: "close-leaves-nothing",
    title: "after close nothing of the backend keeps the process alive",
    applies: withPower("openHandles"),
    async run(trial) {
      const before = trial.store.openHandles?.() ?? 0;
      const [a, b] = await trial.clients();
      const grant = await a.take(trial.name());
      await b.refused(trial.name());
      await a.renew(grant);
      await a.backend.close();
      await b.backend.close();
      // Sockets and files take a moment to close.
      let left = (trial.store.openHandles?.() ?? 0) - before;
      for (let looks = 0; left > 0 && looks < HANDLE_LOOKS; looks++) {
        await trial.advance(20);
        left = (trial.store.openHandles?.() ?? 0) - before;
      }
      must(left <= 0, "close", `${left} handles are left`);
    },
  },
  {
    id: "abort-settles",
    title: "calls whose signal was aborted settle, either way",
    applies: always,
    async run(trial) {
      const client = await trial.client();
      const grant = await client.take(trial.name());
      const call: Call = { signal: AbortSignal.abort(new Error("gone")), timeoutMs: 1_000 };
      const { backend } = client;
      const request = { name: trial.name("b"), holder: trial.holder(), ttlMs: grant.ttlMs };
      const calls: Record<string, () => Promise<unknown>> = {
        acquire: async () => backend.acquire(request, call),
        renew: async () => backend.renew([grant], call),
        release: async () => backend.release([grant], call),
        inspect: async () => backend.inspect(trial.name(), call),
      };
      for (const [what, start] of Object.entries(calls)) await settles(trial, start(), what);
    },
  },
];

async function settles(trial: Trial, outcome: Promise<unknown>, what: string): Promise<void> {
  const either = outcome.then(
    () => undefined,
    () => undefined,
  );
  await trial.within(SETTLES_MS, either, `${what} with an aborted signal`);
}
