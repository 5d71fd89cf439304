import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it } from "vitest";
import { connect } from "../../../src/connect.js";
import { faultProxy } from "../../../src/testing/fault-proxy.js";
import { describeOn } from "../../servers/find.js";
import { mariadbProgram, startMariadb, type MariadbServer } from "../../servers/mariadb.js";

/** Longer than a connection may take where nobody waits longer. */
const SLOW_MS = 5_300;

describeOn(mariadbProgram, "connections to MySQL", () => {
  let server: MariadbServer;
  beforeAll(async () => void (server = await startMariadb()));
  afterAll(() => server.dispose());

  it("are made in the time that the caller gives, at a URL", { timeout: 30_000 }, async () => {
    const url = new URL(server.url);
    await using proxy = await faultProxy({ port: Number(url.port) });
    url.port = String(proxy.port);
    const slowly = async <R>(work: () => Promise<R>): Promise<R> => {
      proxy.hold();
      const made = proxy.connected();
      const result = work();
      await made;
      await sleep(SLOW_MS);
      await proxy.heal();
      return result;
    };
    const tenure = await slowly(() => connect(url.href, { timeout: "20s" }));
    // Its first in the pool.
    const lease = await slowly(() => tenure.tryAcquire("x"));
    expect(lease?.state).toBe("held");
    await tenure.close();
  });
});
