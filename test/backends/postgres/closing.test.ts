/** Closing while the server is silent: the client libraries would wait for its side to end. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { connect } from "../../../src/connect.js";
import { describeOn } from "../../servers/find.js";
import { postgresProgram, startPostgres, type PostgresServer } from "../../servers/postgres.js";

describeOn(postgresProgram, "closing postgres whose server is frozen", () => {
  let server: PostgresServer;
  beforeAll(async () => void (server = await startPostgres()));
  afterAll(() => server.dispose());

  // It would go on for as long as the server is frozen: the test's own time is what ends it.
  it.each(["postgres", "postgres+advisory"])("settles over %s (case 8)", async (scheme) => {
    const tenure = await connect(server.url.replace(/^postgres/, scheme), { timeout: 1_500 });
    await tenure.acquire("x", { ttl: "6s" });
    await server.freeze();
    try {
      const outcome = await tenure.close().then(() => "closed", (error: unknown) => error);
      expect(outcome === "closed" || outcome instanceof Error).toBe(true);
    } finally {
      await server.thaw();
    }
  });
});
