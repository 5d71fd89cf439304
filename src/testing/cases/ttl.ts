import { must } from "../broken-promise.js";
import { always, whereStoreExpires, type ConformanceCase } from "../case.js";
import { describe } from "../client.js";

/** A lease lasts as long as it was granted for, at both ends of the declared range. */
export const ttlCases: readonly ConformanceCase[] = [
  {
    id: "ttl-lasts",
    title: "a lease is not given on before its TTL has passed, and is soon after",
    applies: always,
    async run(trial) {
      const [a, b] = await trial.clients();
      const grant = await a.take(trial.name(), { ttlMs: trial.roomyTtlMs });
      await trial.advance(trial.roomyTtlMs * 0.6);
      await b.refused(trial.name());
      await trial.expire(Math.max(trial.roomyTtlMs, grant.ttlMs) * 0.4);
      await b.takeExpired(trial.name());
    },
  },
  {
    id: "ttl-shortest",
    title: "a lease of the shortest TTL is granted as asked, and ends",
    applies: always,
    async run(trial) {
      const [a, b] = await trial.clients();
      const { minTtlMs } = trial.manifest;
      const grant = await a.take(trial.name(), { ttlMs: minTtlMs });
      const seen = `asked for ${minTtlMs} ms, granted ${grant.ttlMs}`;
      must(grant.ttlMs === minTtlMs, `minTtlMs ${minTtlMs}`, seen);
      await trial.expire(minTtlMs);
      await b.takeExpired(trial.name());
    },
  },
  {
    id: "ttl-longest",
    title: "a lease of the longest TTL is granted as asked, and does not wrap round",
    applies: always,
    async run(trial) {
      const [a, b] = await trial.clients();
      const { maxTtlMs } = trial.manifest;
      const grant = await a.take(trial.name(), { ttlMs: maxTtlMs });
      const promise = `maxTtlMs ${maxTtlMs}`;
      must(grant.ttlMs === maxTtlMs, promise, `granted ${grant.ttlMs}`);
      const { leftMs } = await b.refused(trial.name());
      const most = leftMs ?? maxTtlMs;
      must(most > maxTtlMs * 0.5 && most <= maxTtlMs + 1_000, promise, `${leftMs} ms left at once`);
      must((await a.renew(grant))[0] === "renewed", promise, "it could not be renewed");
      await b.refused(trial.name());
    },
  },
  {
    id: "ttl-left-falls",
    title: "the time left that the store tells falls as time passes",
    applies: whereStoreExpires,
    async run(trial) {
      const client = await trial.client();
      const { ttlMs } = await client.take(trial.name(), { ttlMs: trial.roomyTtlMs });
      await trial.advance(trial.roomyTtlMs * 0.5);
      const shown = await client.inspect(trial.name());
      must(shown !== null, "inspect", "a live lease is not shown");
      const { leftMs } = shown;
      // As granted: a store that counts in seconds gives more than it was asked for.
      const fell = leftMs === undefined || leftMs <= ttlMs - trial.roomyTtlMs * 0.5 + 1;
      must(fell, "leftMs", `half the TTL has passed: ${describe(shown)}`);
    },
  },
];
