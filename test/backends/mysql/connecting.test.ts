import { afterAll, beforeAll, expect, it } from "vitest";
import { connect } from "../../../src/connect.js";
import { faultProxy } from "../../../src/testing/fault-proxy.js";
import { describeOn } from "../../servers/find.js";
import { mariadbProgram, startMariadb, type MariadbServer } from "../../servers/mariadb.js";
import { slowly } from "../slowly.js";

describeOn(mariadbProgram, "connections to MySQL", () => {
  let server: MariadbServer;
  beforeAll(async () => void (server = await startMariadb()));
  afterAll(() => server.dispose());

  it("are made in the time that the caller gives, at a URL", { timeout: 30_000 }, async () => {
    const url = new URL(server.url);
    await using proxy = await faultProxy({ port: Number(url.port) });
    url.port = String(proxy.port);
    const tenure = await slowly(proxy, () => connect(url.href, { timeout: "20s" }));
    // Its first in the pool.
    const lease = await slowly(proxy, () => tenure.tryAcquire("x"));
    expect(lease?.state).toBe("held");
    await tenure.close();
  });
});
