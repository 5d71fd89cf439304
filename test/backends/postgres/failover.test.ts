import { afterEach, expect, it } from "vitest";
import { faultProxy } from "../../../src/testing/fault-proxy.js";
import { describeOn } from "../../servers/find.js";
import { postgresProgram, startPostgres, startStandby, type PostgresServer } from "../../servers/postgres.js";
import { call, freshSchema, openOn, refused, take } from "./rig.js";

describeOn(postgresProgram, "failover of lease rows", () => {
  const servers: PostgresServer[] = [];
  afterEach(async () => {
    for (const server of servers.splice(0).reverse()) await server.dispose();
  });

  it("a grant that the promoted standby never heard of: the next token is higher (scenario 24)", async () => {
    const schema = freshSchema();
    const primary = await startPostgres();
    servers.push(primary);
    const link = await faultProxy({ port: primary.port });
    const backend = await openOn(primary.url, { schema });
    const before = await take(backend, "x", { ttlMs: 60_000 });
    await backend.release([before], call());
    const standby = await startStandby(link.port);
    servers.push(standby);
    await standby.inStepWith(primary);
    // Cut the replication, grant, kill, promote.
    link.refuse();
    link.cut();
    const lost = await take(backend, "x");
    await primary.kill();
    await standby.promote();
    await link.close();
    const after = await openOn(standby.url, { schema });
    expect(after.storeId).toBe(backend.storeId);
    // Both think that they hold. What tells them apart is the token, and that there was a failover.
    const second = await take(after, "x");
    expect(second.token).toBeGreaterThan(lost.token);
    expect([before.storeEpoch, lost.storeEpoch]).toEqual(["00000001", "00000001"]);
    expect(second.storeEpoch).toBe("00000002");
    await expect(after.renew([lost], call())).resolves.toMatchObject([
      { lost: { holder: second.holder } },
    ]);
  });

  it("a grant that was replicated is still there, and can be renewed there (scenario 29)", async () => {
    const schema = freshSchema();
    const primary = await startPostgres();
    servers.push(primary);
    const standby = await startStandby(primary.port);
    servers.push(standby);
    const backend = await openOn(primary.url, { schema });
    const grant = await take(backend, "x", { ttlMs: 60_000 });
    await standby.inStepWith(primary);
    await primary.kill();
    await expect(backend.renew([grant], call())).rejects.toMatchObject({ family: /unav|unk/ });
    await standby.promote();
    const after = await openOn(standby.url, { schema });
    expect(await after.renew([grant], call())).toEqual(["renewed"]);
    expect((await refused(after, "x")).token).toBe(grant.token);
  });

  it("promises less where the server is set to lose what it has answered", async () => {
    const safe = await startPostgres({ fsync: "on" });
    servers.push(safe);
    const schema = freshSchema();
    const strong = await openOn(safe.url, { schema });
    expect(strong.manifest.tokens).toBe("durable");
    const grant = await take(strong, "x");
    await safe.kill();
    await safe.start();
    expect(await strong.renew([grant], call())).toEqual(["renewed"]);
    await safe.query("ALTER DATABASE postgres SET synchronous_commit = off");
    const weak = await openOn(safe.url, { schema });
    expect(weak.manifest.tokens).toBe("until-failover");
  });

  it("a server that is frozen answers nobody, and what was asked ends in time (scenario 16)", async () => {
    const server = await startPostgres();
    servers.push(server);
    const backend = await openOn(server.url, { schema: freshSchema() });
    const grant = await take(backend, "x");
    await server.freeze();
    const controller = new AbortController();
    const renewal = backend.renew([grant], { timeoutMs: 200, signal: controller.signal });
    setTimeout(() => controller.abort(), 200);
    await expect(renewal).rejects.toMatchObject({ family: "unknown" });
    await server.thaw();
    expect(await backend.renew([grant], call())).toEqual(["renewed"]);
  });
});
