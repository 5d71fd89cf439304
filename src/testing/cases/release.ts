import { must } from "../broken-promise.js";
import { always, whereStoreExpires, withTokens, type ConformanceCase } from "../case.js";
import type { Client } from "../client.js";
import { describe } from "../client.js";

/** Giving back, and not giving back what is another's. */
export const releaseCases: readonly ConformanceCase[] = [
  {
    id: "release-frees",
    title: "a released name is free at once, and a second release finds nothing",
    applies: always,
    async run(trial) {
      const [a, b] = await trial.clients();
      const grant = await a.take(trial.name());
      await a.free(grant);
      const [again] = await a.release(grant);
      must(again === "not-held", "release twice", `it answered ${again}`);
      await b.take(trial.name());
      const [late] = await a.release(grant);
      must(late === "not-held", "release twice", `it answered ${late}`);
      await a.refused(trial.name());
    },
  },
  {
    id: "release-outcomes",
    title: "one call answers each of its requests, in order",
    applies: always,
    async run(trial) {
      const client = await trial.client();
      const grants = [];
      for (const text of ["a", "b", "c"]) grants.push(await client.take(trial.name(text)));
      await client.free(grants[0]!);
      const outcomes = await client.release(...grants);
      const right = outcomes.join() === "not-held,released,released";
      must(right, "release answers in order", outcomes.join(", "));
    },
  },
  {
    id: "release-after-expiry",
    title: "an expired lease is not held any more",
    applies: whereStoreExpires,
    async run(trial) {
      const client = await trial.client();
      const grant = await client.take(trial.name(), { ttlMs: trial.shortTtlMs });
      await trial.expire(trial.shortTtlMs);
      const [outcome] = await client.release(grant);
      must(outcome === "not-held", "release of an expired lease", `it answered ${outcome}`);
    },
  },
  {
    id: "release-foreign",
    title: "a late release leaves the lease of the next holder untouched",
    applies: always,
    async run(trial) {
      const [a, b] = await trial.clients();
      const old = await a.take(trial.name(), { ttlMs: trial.shortTtlMs });
      await trial.expire(trial.shortTtlMs);
      const present = await b.takeExpired(trial.name(), { holderInfo: { host: "b" } });
      const [outcome] = await a.release(old);
      must(outcome === "not-held", "release compares the holder", `it answered ${outcome}`);
      const shown = await a.inspect(trial.name());
      must(shown !== null, "release compares the holder", "the next holder's lease is gone");
      const same = trial.manifest.tokens === "none" || shown.token === present.token;
      must(same, "release compares the holder", describe(shown));
      must((await b.renew(present))[0] === "renewed", "release compares the holder", "lease lost");
    },
  },
  {
    id: "release-compares-token",
    title: "a release with the right holder and another token releases nothing",
    applies: withTokens,
    async run(trial) {
      const [a, b] = await trial.clients();
      const wish = { holder: trial.holder() };
      const old = await a.take(trial.name(), wish);
      await a.free(old);
      await a.take(trial.name(), wish);
      const [outcome] = await a.release(old);
      must(outcome === "not-held", "release compares the token", `it answered ${outcome}`);
      await b.refused(trial.name());
    },
  },
  {
    id: "release-compares-holder",
    title: "a release with the right token and another holder releases nothing",
    applies: always,
    async run(trial) {
      const [a, b] = await trial.clients();
      const present = await a.take(trial.name());
      const [outcome] = await a.release({ ...present, holder: trial.holder() });
      must(outcome === "not-held", "release compares the holder", `it answered ${outcome}`);
      await b.refused(trial.name());
      must((await a.renew(present))[0] === "renewed", "release compares the holder", "lease lost");
    },
  },
  {
    id: "release-attempt",
    title: "a release without token undoes whatever an attempt left behind, and only that",
    applies: always,
    async run(trial) {
      const [a, b] = await trial.clients();
      const holder = trial.holder();
      await a.take(trial.name(), { holder });
      const other = await undo(b, trial.name(), trial.holder());
      must(other === "not-held", "release of an attempt", `a stranger's answered ${other}`);
      await b.refused(trial.name());
      const own = await undo(a, trial.name(), holder);
      must(own === "released", "release of an attempt", `it answered ${own}`);
      const again = await undo(a, trial.name(), holder);
      must(again === "not-held", "release of an attempt", `the second answered ${again}`);
      await b.take(trial.name());
    },
  },
  {
    id: "break-exact",
    title: "a break ends the lease of exactly the given token",
    applies: withTokens,
    async run(trial) {
      const [a, b] = await trial.clients();
      const grant = await a.take(trial.name());
      must(grant.token !== undefined, "tokens", "a grant carries no token");
      for (const wrong of [grant.token - 1n, grant.token + 1n]) {
        const ended = await b.backend.break(trial.name(), wrong, b.call());
        must(!ended, "break of another token", `${wrong} ended the lease ${grant.token}`);
      }
      must((await a.renew(grant))[0] === "renewed", "break of another token", "the lease is lost");
      const ended = await b.backend.break(trial.name(), grant.token, b.call());
      must(ended, "break", "the lease of the given token did not end");
      must((await b.inspect(trial.name())) === null, "break", "the lease is still shown");
      must((await a.renew(grant))[0] !== "renewed", "break", "the broken lease was renewed");
      const again = await b.backend.break(trial.name(), grant.token, b.call());
      must(!again, "break", "a free name answered true");
    },
  },
];

async function undo(client: Client, name: string, holder: string): Promise<string | undefined> {
  const [outcome] = await client.release({ name, holder });
  return outcome;
}
