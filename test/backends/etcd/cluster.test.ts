import { expect, it } from "vitest";
import { connect } from "../../../src/connect.js";
import { GuaranteeError, OutcomeUnknownError, UnavailableError } from "../../../src/core/errors.js";
import type { Tenure } from "../../../src/core/tenure.js";
import type { FencingToken } from "../../../src/core/token.js";
import { etcdProgram, startEtcd, startEtcdCluster, type EtcdCluster } from "../../servers/etcd.js";
import { describeOn } from "../../servers/find.js";
import { contenders, eventually } from "./rig.js";

const seconds = (n: number): Promise<void> => new Promise((wake) => setTimeout(wake, n * 1_000));

type Open = (hosts: readonly string[]) => Promise<Tenure<FencingToken>>;

/** Gives a test a cluster of its own: several are run at a time, since most of it is waiting. */
async function withCluster(
  work: (cluster: EtcdCluster, open: Open) => Promise<void>,
): Promise<void> {
  const cluster = await startEtcdCluster();
  const opened: Tenure<FencingToken>[] = [];
  try {
    await work(cluster, async (hosts) => {
      const tenure = await connect(`etcd://${hosts.join(",")}`);
      opened.push(tenure);
      return tenure;
    });
  } finally {
    // A cluster that is no more cannot take leases back.
    await Promise.all(opened.map((tenure) => tenure.close().catch(() => undefined)));
    await cluster.dispose();
  }
}

/** The leader is cut off, or a follower: whoever asks it first goes on with the others. */
async function cutOff(which: "leader" | "follower", cluster: EtcdCluster, open: Open) {
  const leader = await cluster.leader();
  const [follower] = await cluster.followers();
  const cut = which === "leader" ? leader : follower!;
  const rest = cluster.members.filter((member) => member !== cut);
  const tenure = await open([cut, ...rest].map(({ port }) => `127.0.0.1:${port}`));
  const lease = await tenure.acquire("x", { ttl: "9s" });
  await cluster.isolate(cut);
  const next = await tenure.acquire("y", { ttl: "9s", wait: "20s" });
  // Longer than the TTL: both have been renewed by the others.
  await seconds(10);
  expect([lease.state, next.state]).toEqual(["held", "held"]);
  await lease.release();
  expect(await contenders(rest[0]!, "x")).toEqual([]);
  cluster.heal();
  await eventually("the cut one to hear", async () => {
    const seen = await contenders(cut, "x").catch(() => [null]);
    return seen.length === 0;
  });
}

describeOn(etcdProgram, "a cluster of three", () => {
  it.concurrent("loses its leader: holders lose nothing, and waiters are served", () =>
    withCluster(async (cluster, open) => {
      const leader = await cluster.leader();
      // The first of its hosts is the one that will be gone.
      const hosts = [leader, ...(await cluster.followers())].map(({ port }) => `127.0.0.1:${port}`);
      const [a, b] = [await open(hosts), await open(hosts)];
      const leases = await Promise.all([1, 2, 3].map((i) => a.acquire(`x${i}`, { ttl: "9s" })));
      const waiting = b.acquire("x1", { ttl: "9s" });
      await eventually("a waiter", async () => (await contenders(leader, "x1")).length === 2);
      await leader.kill();
      // Longer than the TTL: each has been renewed by the others.
      await seconds(10);
      expect(leases.map(({ state }) => state)).toEqual(["held", "held", "held"]);
      await leases[0]!.release();
      expect((await waiting).token).toBeGreaterThan(leases[0]!.token);
      await leader.start();
      await seconds(1);
      expect(leases[1]!.state).toBe("held");
    }),
  );

  it.concurrent(
    "loses its majority: holders are told by their deadline, and nothing is granted",
    () =>
      withCluster(async (cluster, open) => {
        const tenure = await open(cluster.hosts);
        const lease = await tenure.acquire("x", { ttl: "3s" });
        const [one, two] = await cluster.followers();
        const sinceMs = performance.now();
        await Promise.all([one!.kill(), two!.kill()]);
        const refused = tenure.tryAcquire("y", { ttl: "3s" }).catch((error: unknown) => error);
        const opening = open(cluster.hosts).catch((error: unknown) => error);
        await eventually("its loss", () => lease.signal.aborted, 10_000);
        // Renewed just before at the latest.
        expect(performance.now() - sinceMs).toBeLessThan(3_000 + 1_500);
        expect(lease.signal.reason).toMatchObject({ reason: "deadline" });
        const error = await refused;
        const isNoAnswer =
          error instanceof UnavailableError || error instanceof OutcomeUnknownError;
        expect(isNoAnswer, String(error)).toBe(true);
        expect(String(await opening)).toMatch(/no quorum|no leader/);
        await Promise.all([one!.start(), two!.start()]);
        const next = await tenure.acquire("x", { ttl: "3s", wait: "15s" });
        expect(next.token).toBeGreaterThan(lease.token);
      }),
  );

  it.concurrent("has a leader that is cut off: whoever asks it first goes on with the others", () =>
    withCluster((cluster, open) => cutOff("leader", cluster, open)),
  );

  // Alone: between the others and the next ones, which are run at a time.
  it("is what require: consensus takes, and one member alone is not", () =>
    withCluster(async (cluster) => {
      await (await connect(cluster.url, { require: "consensus" })).close();
      const alone = await startEtcd();
      try {
        const refused = connect(alone.url, { require: "consensus" });
        await expect(refused).rejects.toThrow(GuaranteeError);
        const text = /the tokens of this etcd are "durable"; consensus takes three/;
        await expect(refused).rejects.toThrow(text);
        await (await connect(alone.url, { require: "durable" })).close();
      } finally {
        await alone.dispose();
      }
    }));

  it.concurrent(
    "has a follower that is cut off: whoever asks it first goes on with the others",
    () => withCluster((cluster, open) => cutOff("follower", cluster, open)),
  );

  it.concurrent(
    "has its leader frozen for longer than an election: nobody holds what the store has not (leader-change)",
    () =>
      withCluster(async (cluster, open) => {
        const leader = await cluster.leader();
        const [a, b] = [await open(cluster.hosts), await open(cluster.hosts)];
        const lease = await a.acquire("x", { ttl: "9s" });
        await leader.freeze();
        await seconds(10);
        expect(lease.state).toBe("held");
        const [follower] = cluster.members.filter((member) => member !== leader);
        await leader.thaw();
        // Before 3.4.31 and 3.5.13 the former leader may now revoke what it thinks expired.
        await seconds(2);
        const [record] = await contenders(follower!, "x");
        if (record?.token === lease.token) expect(lease.state).toBe("held");
        else await eventually("its loss", () => lease.state === "lost");
        await lease.release();
        expect((await b.acquire("x", { ttl: "3s" })).token).toBeGreaterThan(lease.token);
      }),
  );
});
