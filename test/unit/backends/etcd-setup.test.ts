import { expect, it } from "vitest";
import type { EtcdGateway } from "../../../src/backends/etcd/client.js";
import { Keys } from "../../../src/backends/etcd/records.js";
import { openStore } from "../../../src/backends/etcd/setup.js";

/** A cluster of these members, as far as opening looks at it. */
function cluster(members: readonly { readonly isLearner?: boolean }[]): EtcdGateway {
  const answers: Readonly<Record<string, object>> = {
    "maintenance/status": { header: { cluster_id: "10" }, version: "3.5.0" },
    "kv/txn": { header: { revision: "1", raft_term: "1" }, succeeded: true },
    "cluster/member/list": { members },
    "lease/grant": { ID: "1", TTL: "2" },
    "lease/revoke": {},
  };
  return {
    ask: async (path) => ({ body: answers[path]!, isLoose: false }),
    watch: () => () => undefined,
  };
}

it.each([
  [1, 0, "durable"],
  [2, 0, "durable"],
  [2, 1, "durable"],
  [1, 4, "durable"],
  [3, 0, "consensus"],
  [3, 1, "consensus"],
])("tokens of an etcd of %i voters and %i learners are %s", async (voters, learners, tokens) => {
  const members = [
    ...Array.from({ length: voters }, () => ({})),
    ...Array.from({ length: learners }, () => ({ isLearner: true })),
  ];
  const found = openStore(cluster(members), new Keys("t/"), { timeoutMs: 1_000 }, () => "id");
  expect(await found).toEqual({ storeId: "a-id", tokens, minTtlMs: 2_000 });
});
