import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { afterEach, describe, expect, it } from "vitest";
import type { Entry } from "../../../src/backends/consul/client.js";
import { Keys } from "../../../src/backends/consul/keys.js";
import { Watches } from "../../../src/backends/consul/watches.js";
import { OutcomeUnknownError, UnavailableError } from "../../../src/core/errors.js";
import { formatExact, parseExact } from "../../../src/drivers/consul/exact-json.js";
import { openConsul } from "../../../src/drivers/consul/open.js";
import { simulatedRuntime } from "../../../src/testing/simulated-runtime.js";
import { freePort } from "../../servers/free-port.js";
import { until } from "./bench.js";

describe("indexes beyond 2^53", () => {
  it("come and go exactly", () => {
    const text = '[{"ModifyIndex":9007199254740993, "CreateIndex": 18446744073709551615,"n":1.5}]';
    expect(parseExact(text)).toEqual([
      { ModifyIndex: "9007199254740993", CreateIndex: "18446744073709551615", n: 1.5 },
    ]);
    expect(formatExact([{ Index: 2n ** 53n + 1n, Key: "1" }])).toBe(
      '[{"Index":9007199254740993,"Key":"1"}]',
    );
  });

  it("are not looked for inside of texts", () => {
    const key = 'a"ModifyIndex":5, \\"LockIndex\\":6';
    const text = JSON.stringify({ Key: key, ModifyIndex: 7 });
    expect(parseExact(text)).toEqual({ Key: key, ModifyIndex: "7" });
  });
});

describe("an answer that says that something is wrong", () => {
  let server: Server | undefined;
  afterEach(() => void server?.close());

  async function client(status: number, body: string) {
    server = createServer((_request, response) => response.writeHead(status).end(body));
    await new Promise<void>((resolve) => server!.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    return openConsul(`consul://127.0.0.1:${port}`, {}).client;
  }
  const during = { signal: new AbortController().signal, timeoutMs: 5_000, during: "test" };
  const write = [{ verb: "delete", key: "k" }] as const;

  it.each<[status: number, body: string, kind: new (...args: never[]) => Error, retry?: boolean]>([
    [500, "No cluster leader", UnavailableError, true],
    [500, "rpc error making call: node is not the leader", UnavailableError, true],
    [500, "rpc error making call: Missing node registration", UnavailableError, true],
    [500, "leadership lost while committing log", OutcomeUnknownError],
    [500, "rpc error making call: EOF", OutcomeUnknownError],
    [429, "rate limit reached", UnavailableError, true],
    [413, "Request body(9) too large", UnavailableError, false],
    [403, "Permission denied", UnavailableError, false],
    [200, "<html>", OutcomeUnknownError],
    [409, '{"Results":null,"Errors":[]}', OutcomeUnknownError],
    [409, '{"Errors":[{"OpIndex":0,"What":"Permission denied: key"}]}', UnavailableError, false],
  ])("tells whether a write may have happened: %i %s", async (status, body, kind, retryable) => {
    const one = await client(status, body);
    const error = await one.txn(write, during).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(kind);
    if (retryable !== undefined) expect(error).toMatchObject({ retryable });
    const read = await one.read(["k"], during).catch((thrown: unknown) => thrown);
    expect(read).toBeInstanceOf(UnavailableError);
    one.close();
  });

  it("did nothing where nobody listens", async () => {
    const { client: one } = openConsul(`consul://127.0.0.1:${await freePort()}`, {});
    await expect(one.txn(write, during)).rejects.toThrow(UnavailableError);
    one.close();
    await expect(one.txn(write, during)).rejects.toMatchObject({ retryable: false });
  });
});

describe("watches", () => {
  const held = (index: bigint): Entry => ({
    key: "tenure/lease/x",
    value: new Uint8Array(0),
    session: "s",
    index,
  });

  it("start anew when the index goes back, and never ask with 0", async () => {
    const sim = simulatedRuntime({ seed: 1 });
    const answers = [
      { entry: held(70n), index: 70n },
      { entry: held(5n), index: 5n },
      { entry: held(5n), index: 0n },
      { entry: undefined, index: 9n },
    ];
    const asked: unknown[] = [];
    let wakes = 0;
    const watch = async (_key: string, since: { readonly index: bigint } | undefined) => {
      asked.push(since?.index);
      // When nothing is left, as an agent does whose key does not change.
      return answers.shift() ?? new Promise<never>(() => undefined);
    };
    const watches = new Watches({ watch } as never, new Keys("tenure"), sim.runtime);
    const call = { signal: new AbortController().signal, timeoutMs: 1_000 };
    const subscription = await watches.subscribe("x", () => wakes++, call);
    await until("the free name", () => wakes === 2);
    expect(asked).toEqual([undefined, 70n, 1n, 1n]);
    // Free: perhaps held back by its lock delay. It is looked at every second.
    await sim.advance(1_000);
    await until("the next look", () => asked.length === 5);
    expect(asked.at(-1)).toBeUndefined();
    await subscription[Symbol.asyncDispose]();
  });
});
