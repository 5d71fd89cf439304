import { expect, it } from "vitest";
import { etcdCas } from "../../../src/cas/etcd.js";
import { ConflictError } from "../../../src/cas/errors.js";
import type { Cas } from "../../../src/cas/contract.js";
import { OutcomeUnknownError } from "../../../src/core/errors.js";
import { platform } from "../../../src/platform/index.js";

const kept = (by: string): string =>
  Buffer.from(JSON.stringify({ by, value: 1 })).toString("base64");

/**
 * A cluster that was sent a write twice, and answers the second copy: somebody has written since.
 * Its history begins with the write of `first`, or is gone.
 */
function sentTwice(first: string | undefined, isLoose = true): Cas {
  const runtime = { ...platform(), random: { uniform: () => 0, id: () => "mine" } };
  return etcdCas({
    ...{ runtime, prefix: "", timeoutMs: 1_000, maxBytes: 1_000, close: () => undefined },
    gateway: {
      ask: async () => ({
        isLoose,
        body: {
          header: { revision: "9" },
          responses: [
            {
              response_range: {
                kvs: [{ mod_revision: "8", create_revision: "5", value: kept("other") }],
              },
            },
          ],
        },
      }),
      watch: (create, sink) => {
        expect(create).toMatchObject({ start_revision: "7" });
        queueMicrotask(() => {
          sink.message({ created: true });
          if (first === undefined) return sink.ended();
          const kv = { mod_revision: "7", create_revision: "5", value: kept(first) };
          sink.message({ events: [{ kv }] });
        });
        return () => undefined;
      },
    },
  });
}

it("knows by the key's history that its own write was the first", async () => {
  expect(await sentTwice("mine").write("k", 1, { version: 6n })).toBe(7n);
  const beaten = sentTwice("third").write("k", 1, { version: 6n });
  await expect(beaten).rejects.toBeInstanceOf(ConflictError);
  await expect(beaten).rejects.toMatchObject({ version: 8n });
});

it("says so where the history is gone", async () => {
  const unknown = sentTwice(undefined).write("k", 1, { version: 6n });
  await expect(unknown).rejects.toBeInstanceOf(OutcomeUnknownError);
});

it("asks no history where the write was sent once", async () => {
  const beaten = sentTwice("mine", false).write("k", 1, { version: 6n });
  await expect(beaten).rejects.toBeInstanceOf(ConflictError);
});
