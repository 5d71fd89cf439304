import { must } from "../broken-promise.js";
import { allOf, always, whereStoreExpires, withPower, withTokens, type ConformanceCase } from "../case.js";
import type { Trial } from "../trial.js";

/** The heart of the suite: the token of a name rises, whatever ended the lease before. */
export const tokenOrderCases: readonly ConformanceCase[] = [
  {
    id: "token-after-release",
    title: "each grant of a name has a higher token than all before it",
    applies: always,
    async run(trial) {
      const clients = await trial.clients();
      let last = await clients[0].take(trial.name());
      for (let i = 1; i <= 50; i++) {
        await clients[0].free(last);
        const next = await clients[i % 2]!.take(trial.name());
        trial.rises(last.token, next.token, "a release");
        last = next;
      }
    },
  },
  {
    id: "token-after-expiry",
    title: "the token is higher after a lease has expired, even for the same holder",
    applies: always,
    async run(trial) {
      const [a, b] = await trial.clients();
      const holder = trial.holder();
      const first = await a.take(trial.name(), { holder, ttlMs: trial.shortTtlMs });
      await trial.expire(trial.shortTtlMs);
      const second = await b.takeExpired(trial.name());
      trial.rises(first.token, second.token, "an expiry");
      await b.free(second);
      const third = await a.take(trial.name(), { holder });
      trial.rises(second.token, third.token, "a repeat of a holder whose lease had expired");
    },
  },
  {
    id: "token-after-break",
    title: "the token is higher after a lease was broken",
    applies: withTokens,
    async run(trial) {
      const [a, b] = await trial.clients();
      const first = await a.take(trial.name());
      must(first.token !== undefined, "tokens", "a grant carries no token");
      await b.backend.break(trial.name(), first.token, b.call());
      trial.rises(first.token, (await b.take(trial.name())).token, "a break");
    },
  },
  {
    id: "token-after-deletion",
    title: "the token is higher after somebody deleted the lock's record",
    applies: allOf(withTokens, withPower("deleteRecord")),
    run: (trial) =>
      endedBy(trial, "a deletion", () => trial.store.deleteRecord?.(trial.name())),
  },
  {
    id: "token-after-sweep",
    title: "the token is higher after the store swept away an expired lease",
    applies: allOf(withTokens, whereStoreExpires, withPower("sweep")),
    run: (trial) =>
      endedBy(trial, "a sweep", async () => {
        await trial.expire(trial.shortTtlMs);
        await trial.store.sweep?.();
      }),
  },
  {
    id: "token-after-restart",
    title: "the token is higher after the store was stopped and started",
    applies: allOf(withTokens, withPower("restart")),
    async run(trial) {
      const a = await trial.client();
      const free = await a.take(trial.name("released before"));
      await a.free(free);
      const held = await a.take(trial.name("held"), { ttlMs: trial.shortTtlMs });
      await trial.store.restart?.();
      const b = await trial.client();
      const afterFree = await b.take(trial.name("released before"));
      trial.rises(free.token, afterFree.token, "a restart of the store");
      await trial.expire(trial.shortTtlMs);
      const afterHeld = await b.takeExpired(trial.name("held"));
      trial.rises(held.token, afterHeld.token, "a restart of the store while the lease was held");
    },
  },
  {
    id: "token-beyond-double",
    title: "tokens stay exact and rise beyond 2^53",
    applies: allOf(withTokens, withPower("presetToken")),
    async run(trial) {
      const start = 2n ** 53n - 2n;
      await trial.store.presetToken?.(trial.name(), start);
      const client = await trial.client();
      let last = await client.take(trial.name());
      const exact = last.token !== undefined && last.token >= start;
      must(exact, "token", `${last.token} is below ${start}`);
      for (let i = 0; i < 5; i++) {
        const seen = (await client.inspect(trial.name()))?.token;
        must(seen === last.token, "inspect", `it shows token ${seen} of ${last.token}`);
        await client.free(last);
        const next = await client.take(trial.name());
        trial.rises(last.token, next.token, "2^53");
        last = next;
      }
    },
  },
];

async function endedBy(
  trial: Trial,
  what: string,
  end: () => Promise<void> | undefined,
): Promise<void> {
  const [a, b] = await trial.clients();
  const released = await a.take(trial.name());
  await a.free(released);
  const first = await a.take(trial.name(), { ttlMs: trial.shortTtlMs });
  await end();
  const second = await b.takeExpired(trial.name());
  trial.rises(first.token, second.token, what);
  await b.free(second);
  await end();
  trial.rises(second.token, (await a.take(trial.name())).token, `${what}, of a free name`);
}
