import { expect, it } from "vitest";
import { exitFor } from "../../../src/cli/failure.js";
import { openStore } from "../../../src/cli/store.js";
import { connect } from "../../../src/connect.js";
import { splitStoreUrl } from "../../../src/store-url.js";

const told = async (asked: Promise<unknown>): Promise<Error> =>
  (await asked.catch((error: unknown) => error)) as Error;

it("lists of the stores those that keep others out: each command is a process", async () => {
  for (const url of ["nosql:secret@host", "memory", "/tmp/locks.db"]) {
    const error = await told(openStore({ url }));
    expect(error.message).toMatch(/^url must be a store URL \(sqlite: redis: .* zookeeper:\)/);
    expect(error.message).not.toMatch(/secret|memory:/);
    expect(exitFor(error)).toBe(64);
    expect((await told(connect(url))).message).toMatch(
      /^url must be a store URL \(memory: within one process, sqlite: redis: .* zookeeper:\)/,
    );
  }
  expect(() => splitStoreUrl("memory:", "processes")).toThrow(TypeError);
  expect(splitStoreUrl("REDIS://Host")).toEqual({ scheme: "redis", rest: "//Host" });
});
