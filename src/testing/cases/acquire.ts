import { must } from "../broken-promise.js";
import { always, whereStoreExpires, type ConformanceCase } from "../case.js";
import { describe } from "../client.js";

const CONTENDERS = 20;
const ROUNDS = 5;

/** One holder at a time, and the same answer for the same holder. */
export const acquireCases: readonly ConformanceCase[] = [
  {
    id: "acquire-one-winner",
    title: `of ${CONTENDERS} contenders at once exactly one is granted`,
    applies: always,
    async run(trial) {
      const clients = await trial.clients();
      for (let round = 0; round < ROUNDS; round++) {
        const answers = await Promise.all(
          Array.from({ length: CONTENDERS }, (_, i) => clients[i % 2]!.acquire(trial.name())),
        );
        const grants = answers.flatMap((answer) => ("grant" in answer ? [answer.grant] : []));
        must(grants.length === 1, "acquire", `${grants.length} contenders were granted at once`);
        await clients[0].free(grants[0]!);
      }
    },
  },
  {
    id: "acquire-idempotent",
    title: "a repeat by the same holder gets the same grant, also at once and elsewhere",
    applies: always,
    async run(trial) {
      const [a, b] = await trial.clients();
      const wish = { holder: trial.holder() };
      const first = await a.take(trial.name(), wish);
      const repeats = await Promise.all([
        a.acquire(trial.name(), wish),
        a.acquire(trial.name(), wish),
        // After a lost connection the retry comes over another one; a session does not move.
        ...(trial.manifest.ttlScope === "session" ? [] : [b.acquire(trial.name(), wish)]),
      ]);
      for (const repeat of repeats) {
        must("grant" in repeat, "acquire is idempotent", "a holder was refused by its own lease");
        const seen = `token ${repeat.grant.token} after ${first.token}`;
        must(repeat.grant.token === first.token, "acquire is idempotent", seen);
      }
      await b.refused(trial.name());
    },
  },
  {
    id: "acquire-repeat-restarts",
    title: "a repeated grant lasts its full TTL from the repeat, as the holder will count",
    applies: always,
    async run(trial) {
      const [a, b] = await trial.clients();
      // A repeat under a new session may take its time.
      const ttlMs = 1.5 * trial.roomyTtlMs;
      const wish = { holder: trial.holder(), ttlMs };
      await a.take(trial.name(), wish);
      await trial.advance(ttlMs * 0.6);
      await a.take(trial.name(), wish);
      await trial.advance(ttlMs * 0.6);
      await b.refused(trial.name());
    },
  },
  {
    id: "acquire-refusal",
    title: "another holder is told who holds, with which token and for how long",
    applies: always,
    async run(trial) {
      const [a, b] = await trial.clients();
      const holder = trial.holder();
      const ttlMs = 30_000;
      const { token } = await a.take(trial.name(), { holder, ttlMs });
      const held = await b.refused(trial.name());
      const seen = describe(held);
      must(held.why === "held", "a refusal says why", seen);
      must(held.holder === undefined || held.holder === holder, "a refusal names the holder", seen);
      if (trial.manifest.tokens !== "none") {
        must(held.token === token, "a refusal tells the token", seen);
      }
      const { leftMs } = held;
      const mayBeSilent = ["observed", "session"].includes(trial.manifest.expiryClock);
      must(mayBeSilent || leftMs !== undefined, "a refusal tells leftMs", seen);
      const right = leftMs === undefined || (leftMs > 0 && leftMs <= ttlMs + 1_000);
      must(right, "a refusal tells leftMs", seen);
    },
  },
  {
    id: "acquire-observed",
    title: "an unchanged record is taken over by its version, a renewed one is not",
    applies: ({ manifest: { expiryClock } }) =>
      expiryClock === "observed" ? true : `expiryClock is "${expiryClock}", not "observed"`,
    async run(trial) {
      const [a, b] = await trial.clients();
      const grant = await a.take(trial.name());
      const { version, ttlMs } = await b.refused(trial.name());
      must(version !== undefined && ttlMs !== undefined, "a refusal", "no version or no ttlMs");
      const [renewed] = await a.renew(grant);
      must(renewed === "renewed", "renew", "a live lease was not renewed");
      await b.refused(trial.name(), { takeOver: version });
      const again = await b.refused(trial.name());
      must(again.version !== undefined, "a refusal", "it carries no version");
      const taken = await b.take(trial.name(), { takeOver: again.version });
      trial.rises(grant.token, taken.token, "a take-over");
    },
  },
  {
    id: "acquire-take-over",
    title: "taking over an expired lease rewrites holder, token, info and time in one step",
    applies: always,
    async run(trial) {
      const [a, b] = await trial.clients();
      const old = { ttlMs: trial.shortTtlMs, holderInfo: { host: "old", pid: 1 } };
      await a.take(trial.name(), old);
      await trial.expire(trial.shortTtlMs);
      const holder = trial.holder();
      const wish = { holder, ttlMs: 30_000, holderInfo: { host: "new" } };
      const taken = await b.takeExpired(trial.name(), wish);
      const shown = await a.inspect(trial.name());
      must(shown !== null, "inspect", "a lease that was taken over is not shown");
      const seen = describe(shown);
      must(shown.holder === undefined || shown.holder === holder, "take-over: holder", seen);
      const tokenIsNew = trial.manifest.tokens === "none" || shown.token === taken.token;
      must(tokenIsNew, "take-over: token", seen);
      const info = shown.holderInfo;
      const isNew = info === undefined || (info["host"] === "new" && info["pid"] === undefined);
      must(isNew, "take-over: holderInfo", seen);
      const timeIsNew = shown.leftMs === undefined || shown.leftMs > trial.shortTtlMs;
      must(timeIsNew || trial.shortTtlMs >= 30_000, "take-over: time left", seen);
    },
  },
  {
    id: "acquire-abandoned",
    title: "an attempt whose late duplicate arrives after its clean-up ends within one TTL",
    applies: whereStoreExpires,
    async run(trial) {
      const [a, b] = await trial.clients();
      const wish = { holder: trial.holder(), ttlMs: trial.shortTtlMs };
      await a.take(trial.name(), wish);
      await a.release({ name: trial.name(), holder: wish.holder });
      await a.acquire(trial.name(), wish);
      await trial.expire(trial.shortTtlMs);
      await b.takeExpired(trial.name());
    },
  },
];
