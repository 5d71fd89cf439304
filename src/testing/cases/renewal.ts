import type { Renewed } from "../../core/backend.js";
import { must } from "../broken-promise.js";
import { allOf, always, whereStoreExpires, withTokens, type ConformanceCase } from "../case.js";
import { describe } from "../client.js";

const BATCH_LIMIT = 1_000;

/** What a renewal may do, and what it must never do. */
export const renewalCases: readonly ConformanceCase[] = [
  {
    id: "renew-outcomes",
    title: "one call answers each of its grants, in order: renewed, taken, absent, released",
    applies: always,
    async run(trial) {
      const [a, b] = await trial.clients();
      const short = { ttlMs: trial.shortTtlMs };
      const taken = await a.take(trial.name("taken"), short);
      await trial.expire(trial.shortTtlMs);
      const by = await b.takeExpired(trial.name("taken"));
      const live1 = await a.take(trial.name("live 1"));
      const released = await a.take(trial.name("released"));
      await a.free(released);
      const live2 = await a.take(trial.name("live 2"));
      const outcomes = await a.renew(live1, taken, released, live2);
      const seen = outcomes.map(show).join(", ");
      must(outcomes[0] === "renewed" && outcomes[3] === "renewed", "renew of a live lease", seen);
      const loss = outcomes[1];
      must(isLost(loss) && loss.lost !== "absent", "renew of a lease that was taken over", seen);
      const names = loss.lost.holder === undefined || loss.lost.holder === by.holder;
      must(names, "renew tells by whom a lease was taken", seen);
      must(isLost(outcomes[2]) && outcomes[2].lost === "absent", "renew of a released lease", seen);
    },
  },
  {
    id: "renew-prolongs",
    title: "a renewed lease outlives its first TTL",
    applies: always,
    async run(trial) {
      const [a, b] = await trial.clients();
      const grant = await a.take(trial.name(), { ttlMs: trial.roomyTtlMs });
      await trial.advance(trial.roomyTtlMs * 0.6);
      const [outcome] = await a.renew(grant);
      must(outcome === "renewed", "renew of a live lease", show(outcome));
      await trial.advance(trial.roomyTtlMs * 0.6);
      await b.refused(trial.name());
    },
  },
  {
    id: "renew-sets",
    title: "a renewal sets the time and never adds: ten at once leave one TTL",
    applies: always,
    async run(trial) {
      const [a, b] = await trial.clients();
      const grant = await a.take(trial.name(), { ttlMs: trial.shortTtlMs });
      await Promise.all(Array.from({ length: 10 }, () => a.renew(grant)));
      const leftMs = (await b.inspect(trial.name()))?.leftMs;
      const bounded = leftMs === undefined || leftMs <= grant.ttlMs + 1;
      must(bounded, "renew sets the time", `${leftMs} ms left of a TTL of ${grant.ttlMs}`);
      await trial.expire(trial.shortTtlMs);
      await b.takeExpired(trial.name());
    },
  },
  {
    id: "renew-other-ttl",
    title: "a renewal under another TTL leaves that one, and shows it",
    // Only a lease that is handed from one process to another is renewed under another TTL.
    applies: allOf(withTokens, ({ manifest }) =>
      manifest.ttlScope === "session" ? 'the manifest says ttlScope: "session"' : true,
    ),
    async run(trial) {
      const [a, b] = await trial.clients();
      const ttlMs = 3 * trial.roomyTtlMs;
      const grant = await a.take(trial.name(), { ttlMs: trial.roomyTtlMs });
      await a.renew({ ...grant, ttlMs });
      const shown = await b.inspect(trial.name());
      must(shown !== null, "inspect", "a renewed lease is not shown");
      const { leftMs = ttlMs } = shown;
      const isSet = leftMs > 2 * trial.roomyTtlMs && leftMs <= ttlMs + 1;
      must(isSet, "renew sets the time", `${leftMs} ms left of a TTL of ${ttlMs}`);
      const isShown = shown.ttlMs === undefined || shown.ttlMs === ttlMs;
      must(isShown, "inspect shows the TTL last renewed", `${shown.ttlMs}, not ${ttlMs}`);
    },
  },
  {
    id: "renew-keeps-token",
    title: "a renewal does not move the token",
    applies: always,
    async run(trial) {
      const [a, b] = await trial.clients();
      const holder = trial.holder();
      const grant = await a.take(trial.name(), { holder });
      for (let i = 0; i < 3; i++) await a.renew(grant);
      const shown = await b.inspect(trial.name());
      must(shown !== null, "inspect", "a renewed lease is not shown");
      if (trial.manifest.tokens !== "none") {
        must(shown.token === grant.token, "renew keeps the token", describe(shown));
      }
      const [outcome] = await a.renew(grant);
      must(outcome === "renewed", "renew of a live lease", show(outcome));
      const again = await a.take(trial.name(), { holder });
      const kept = again.token === grant.token;
      must(kept, "renew keeps the token", `${again.token} after ${grant.token}`);
    },
  },
  {
    id: "renew-never-revives",
    title: "an expired lease stays expired, whoever renews it",
    applies: whereStoreExpires,
    async run(trial) {
      const [a, b] = await trial.clients();
      const grant = await a.take(trial.name(), { ttlMs: trial.shortTtlMs });
      await trial.expire(trial.shortTtlMs);
      const [outcome] = await a.renew(grant);
      must(isLost(outcome), "renew never revives", show(outcome));
      const shown = await b.inspect(trial.name());
      must(shown === null, "renew never revives", shown === null ? "" : describe(shown));
      trial.rises(grant.token, (await b.takeExpired(trial.name())).token, "a late renewal");
    },
  },
  {
    id: "renew-never-recreates",
    title: "a renewal that arrives after the release, or after a newer lease, leaves no record",
    applies: always,
    async run(trial) {
      const [a, b] = await trial.clients();
      const first = await a.take(trial.name());
      await a.free(first);
      must(isLost((await a.renew(first))[0]), "renew of a released lease", "it was renewed");
      must((await b.inspect(trial.name())) === null, "renew never re-creates", "a record is back");
      const second = await b.take(trial.name());
      const [late] = await a.renew(first);
      must(isLost(late), "renew of a lease that was taken over", show(late));
      await b.free(second);
      await a.renew(first);
      must((await b.inspect(trial.name())) === null, "renew never re-creates", "a record is back");
    },
  },
  {
    id: "renew-compares-token",
    title: "a renewal with the right holder and another token renews nothing",
    applies: ({ manifest }) => (manifest.tokens === "none" ? 'tokens: "none"' : true),
    async run(trial) {
      const client = await trial.client();
      const wish = { holder: trial.holder() };
      const old = await client.take(trial.name(), wish);
      await client.free(old);
      const present = await client.take(trial.name(), wish);
      const [outcome] = await client.renew(old);
      must(isLost(outcome), "renew compares the token", show(outcome));
      const [own] = await client.renew(present);
      must(own === "renewed", "renew of a live lease", show(own));
    },
  },
  {
    id: "renew-compares-holder",
    title: "a renewal with the right token and another holder renews nothing",
    applies: always,
    async run(trial) {
      const client = await trial.client();
      const present = await client.take(trial.name());
      const [outcome] = await client.renew({ ...present, holder: trial.holder() });
      must(isLost(outcome), "renew compares the holder", show(outcome));
      const [own] = await client.renew(present);
      must(own === "renewed", "renew of a live lease", show(own));
    },
  },
  {
    id: "renew-batch",
    title: `one call carries as many grants as declared (asked for up to ${BATCH_LIMIT})`,
    applies: always,
    async run(trial) {
      const client = await trial.client();
      const size = Math.min(trial.manifest.renewBatch, BATCH_LIMIT);
      const grants = [];
      for (let i = 0; i < size; i++) grants.push(await client.take(trial.name(`${i}`)));
      const outcomes = await client.renew(...grants);
      const wrong = outcomes.findIndex((outcome) => outcome !== "renewed");
      must(wrong === -1, `renewBatch ${trial.manifest.renewBatch}`, show(outcomes[wrong]));
    },
  },
  {
    id: "renew-nothing",
    title: "a renewal and a release of nothing answer with nothing",
    applies: always,
    async run(trial) {
      const client = await trial.client();
      await client.renew();
      await client.release();
    },
  },
];

function isLost(outcome: Renewed | undefined): outcome is Extract<Renewed, object> {
  return typeof outcome === "object";
}

function show(outcome: Renewed | undefined): string {
  if (!isLost(outcome)) return String(outcome);
  return outcome.lost === "absent" ? "lost, absent" : `lost to ${describe(outcome.lost)}`;
}
