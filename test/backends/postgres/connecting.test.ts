import { createServer, type AddressInfo } from "node:net";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { postgres } from "../../../src/backends/postgres/open.js";
import { claims } from "../../../src/claims/open.js";
import { connect } from "../../../src/connect.js";
import { connectWithin } from "../../../src/drivers/connecting.js";
import { openPostgres } from "../../../src/drivers/postgres/open.js";
import { faultProxy } from "../../../src/testing/fault-proxy.js";
import { describeOn } from "../../servers/find.js";
import { postgresProgram, startPostgres, type PostgresServer } from "../../servers/postgres.js";
import { slowly } from "../slowly.js";
import { freshSchema } from "./rig.js";

it("may take as long as the most patient caller waits, and 5 s at least", () => {
  const within = connectWithin();
  expect([within(), within(100), within(8_000.2), within(), within(2 ** 40)]).toEqual([
    5_000, 5_000, 8_001, 8_001, 3_600_000,
  ]);
});

describeOn(postgresProgram, "connections to Postgres", () => {
  let server: PostgresServer;
  beforeAll(async () => void (server = await startPostgres()));
  afterAll(() => server.dispose());

  it("are made in the time of a pattern, at a URL", { timeout: 30_000 }, async () => {
    await using proxy = await faultProxy({ port: Number(new URL(server.url).port) });
    const url = new URL(server.url);
    url.port = String(proxy.port);
    const options = { schema: freshSchema(), timeout: "20s" } as const;
    const c = await slowly(proxy, () => claims(url.href, options));
    expect(await c.claim("x", "me")).toBe(true);
    await c.close();
  });

  describe.each(["pg", "postgres"] as const)("through %s", (library) => {
    it("are made in the time that the caller gives, at a URL", { timeout: 30_000 }, async () => {
      await using proxy = await faultProxy({ port: Number(new URL(server.url).port) });
      const url = new URL(server.url);
      url.port = String(proxy.port);
      const backend = await postgres(url.href, { library, schema: freshSchema() });
      const tenure = await slowly(proxy, () => connect(backend, { timeout: "20s" }));
      // Its first in the pool.
      const lease = await slowly(proxy, () => tenure.tryAcquire("x"));
      expect(lease?.state).toBe("held");
      await tenure.close();
    });
  });
});

/** Port of a server that hangs up on every greeting, as what stands before one away does. */
async function hangingUp(): Promise<number> {
  const listener = createServer((socket) => {
    socket.on("error", () => undefined);
    socket.once("data", () => socket.end());
  });
  await new Promise<void>((up) => listener.listen(0, "127.0.0.1", up));
  onTestFinished(() => void listener.close());
  return (listener.address() as AddressInfo).port;
}

// The library `postgres` begins anew each time, and without end.
it.concurrent.each([
  ["", /within 5000 ms$/],
  ["?sslmode=require", /within 5000 ms; ssl is set: does the server take TLS at this port\?$/],
])(
  "to a server that hangs up%s fail in time",
  async (query, told) => {
    const url = `postgres://u@127.0.0.1:${await hangingUp()}/d${query}`;
    const database = await openPostgres(url, { library: "postgres" });
    const error: unknown = await database.connect().catch((reason: unknown) => reason);
    await database.close();
    expect(error).toMatchObject({ family: "unavailable", message: expect.stringMatching(told) });
  },
  15_000,
);
