/** Closing while the server is silent, or at work. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { connect } from "../../../src/connect.js";
import { rows } from "../../../src/rows/open.js";
import { describeOn } from "../../servers/find.js";
import { postgresProgram, startPostgres, type PostgresServer } from "../../servers/postgres.js";

describeOn(postgresProgram, "closing postgres", () => {
  let server: PostgresServer;
  beforeAll(async () => void (server = await startPostgres()));
  afterAll(() => server.dispose());

  it("lets a transaction that runs come to its end", async () => {
    const db = await rows(server.url);
    let begin = (): void => undefined;
    const begun = new Promise<void>((resolve) => (begin = resolve));
    const running = db.transaction(async (tx) => {
      if (!("query" in tx)) throw new Error("no server");
      await tx.query("CREATE TABLE closing (id int)");
      begin();
      await tx.query("SELECT pg_sleep(2.5)");
      await tx.query("INSERT INTO closing VALUES (1)");
    });
    await begun;
    await db.close();
    await running;
    expect(await server.query("SELECT id FROM closing")).toEqual([{ id: 1 }]);
  });

  // It would go on for as long as the server is frozen: the test's own time is what ends it.
  it.each(["postgres", "postgres+advisory"])("settles over %s while the server is frozen (case 8)", async (scheme) => {
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
