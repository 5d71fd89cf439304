import { afterAll, beforeAll, expect, it } from "vitest";
import { GuaranteeError, LeaseLostError } from "../../../src/core/errors.js";
import { connect } from "../../../src/connect.js";
import { consul } from "../../../src/backends/consul/open.js";
import {
  consulProgram,
  leaderAmong,
  startConsul,
  startConsulCluster,
  type ConsulServer,
} from "../../servers/consul.js";
import { describeOptional } from "../../servers/find.js";
import { bench, reasonOf, until } from "./bench.js";

describeOptional(consulProgram, "consul backend on several servers", () => {
  let servers: readonly ConsulServer[] = [];
  beforeAll(async () => void (servers = await startConsulCluster()));
  afterAll(() => Promise.all(servers.map((server) => server.dispose())));
  const { tenure } = bench(() => servers[0]!);

  it("has tokens of consensus on three servers, and not on one", async () => {
    await using one = await startConsul();
    await expect(connect(one.url, { require: "consensus" })).rejects.toThrow(GuaranteeError);
    const durable = await connect(one.url, { require: "durable" });
    await durable.close();
    const locks = await connect(servers[1]!.url, { require: "consensus" });
    await locks.close();
  });

  it("keeps leases when the leader freezes, and raises tokens under the next (26)", async () => {
    const leader = await leaderAmong(servers);
    const [a, b] = servers.filter((server) => server !== leader);
    const [one, two] = [await tenure({}, a!.url), await tenure({}, b!.url)];
    const before = await one.acquire("before", { ttl: "30s" });
    const released = await one.acquire("released", { ttl: "30s" });
    await released.release();
    await leader.freeze();
    await until("another leader", async () => (await leaderAmong([a!, b!])) !== undefined);
    await until("an answer", () =>
      before.renew().then(
        () => true,
        () => false,
      ),
    );
    before.assertHeld();
    expect(await two.tryAcquire("before")).toBeNull();
    const next = await two.acquire("released");
    expect(next.token).toBeGreaterThan(released.token);
    await leader.thaw();
    await until("the old leader to follow", () =>
      leader.call("GET", "kv/x?consistent").then(
        () => true,
        () => false,
      ),
    );
    const third = await tenure({}, leader.url);
    expect((await third.inspect("before"))?.token).toBe(before.token);
    expect(await third.tryAcquire("before")).toBeNull();
  });

  it("tells holders in time when most servers are gone, and grants nothing", async () => {
    const [left, ...others] = servers;
    const locks = await tenure({}, left!.url);
    const other = await tenure({}, left!.url);
    const sentMs = performance.now();
    const lease = await locks.acquire("x", { ttl: 3_000 });
    await Promise.all(others.map((server) => server.freeze()));
    const attempt = other.acquire("free", { wait: 2_000 }).then(
      () => "granted",
      () => "refused",
    );
    const reason = await reasonOf(lease.signal);
    expect(performance.now() - sentMs).toBeLessThanOrEqual(3_000);
    expect(reason).toBeInstanceOf(LeaseLostError);
    expect(reason).toMatchObject({ reason: "deadline" });
    expect(await attempt).toBe("refused");
    await Promise.all(others.map((server) => server.thaw()));
    await until("an answer", () =>
      locks.inspect("x").then(
        () => true,
        () => false,
      ),
    );
  });

  it("opens on a follower, and refuses a prefix that is no path", () => {
    expect(() => consul(servers[1]!.url, { prefix: "/tenure/" })).toThrow(/prefix/);
  });
});
