import { must } from "../broken-promise.js";
import { always, withTokens, type ConformanceCase } from "../case.js";

/** What the manifest says of itself, and what can be seen of it at a glance. */
export const manifestCases: readonly ConformanceCase[] = [
  {
    id: "manifest-shape",
    title: "the manifest has limits that make sense",
    applies: always,
    async run(trial) {
      const { minTtlMs, maxTtlMs, renewBatch, backend } = (await trial.connect()).manifest;
      must(backend.length > 0, "manifest.backend", "it is empty");
      const ttl = `minTtlMs ${minTtlMs}, maxTtlMs ${maxTtlMs}`;
      must(Number.isInteger(minTtlMs) && minTtlMs > 0, "manifest.minTtlMs", ttl);
      must(Number.isInteger(maxTtlMs) && maxTtlMs >= minTtlMs, "manifest.maxTtlMs", ttl);
      must(Number.isInteger(renewBatch) && renewBatch > 0, "manifest.renewBatch", `${renewBatch}`);
    },
  },
  {
    id: "manifest-waiting",
    title: "the manifest names the kind of waiting that the backend has",
    applies: always,
    async run(trial) {
      const { manifest, waiting } = await trial.connect();
      const declared = `waiting "${manifest.waiting}"`;
      must(manifest.waiting === waiting.kind, declared, `the backend has "${waiting.kind}"`);
    },
  },
  {
    id: "manifest-sessions",
    title: "a TTL that belongs to a session comes with sessions, and only then",
    applies: always,
    async run(trial) {
      const { manifest, sessions } = await trial.connect();
      const has = `the backend has ${sessions === undefined ? "no " : ""}sessions`;
      const agrees = (manifest.ttlScope === "session") === (sessions !== undefined);
      must(agrees, `ttlScope "${manifest.ttlScope}"`, has);
      const clockAgrees = manifest.expiryClock !== "session" || sessions !== undefined;
      must(clockAgrees, `expiryClock "${manifest.expiryClock}"`, has);
    },
  },
  {
    id: "token-present",
    title: "every grant carries a token of at least 1, as a bigint",
    applies: withTokens,
    async run(trial) {
      const { token } = await (await trial.client()).take(trial.name());
      const seen = `a grant carries ${String(token)} (${typeof token})`;
      must(typeof token === "bigint" && token >= 1n, `tokens "${trial.manifest.tokens}"`, seen);
    },
  },
  {
    id: "token-absent",
    title: "no grant carries a token: a token that nobody vouches for would pass a fence",
    applies: ({ manifest }) =>
      manifest.tokens === "none" ? true : `the manifest says tokens: "${manifest.tokens}"`,
    async run(trial) {
      const { token } = await (await trial.client()).take(trial.name());
      must(token === undefined, 'tokens "none"', `a grant carries ${String(token)}`);
    },
  },
];
