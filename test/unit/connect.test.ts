import pg from "pg";
import postgres from "postgres";
import { createClient } from "redis";
import { expect, test } from "vitest";
import { connect } from "../../src/connect.js";

test.each([
  ["a pool of pg", () => new pg.Pool()],
  ["an instance of postgres", () => postgres()],
  ["a client of node-redis", () => createClient()],
])("%s is told what makes a backend of it", async (_what, client) => {
  const given = connect(client() as never);
  await expect(given).rejects.toThrow(TypeError);
  await expect(given).rejects.toThrow('await postgres(client) of "tenure/backends/postgres"');
});

test("what is no client is told as it was: a promise of a backend by its missing await", async () => {
  await expect(connect(Promise.resolve() as never)).rejects.toThrow("is an await missing?");
  await expect(connect(undefined as never)).rejects.toThrow("a store URL or a backend, got undefined");
});
