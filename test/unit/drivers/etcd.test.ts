import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { describe, expect, it, onTestFinished } from "vitest";
import { OutcomeUnknownError, UnavailableError } from "../../../src/core/errors.js";
import type { EtcdClient } from "../../../src/drivers/etcd/client.js";
import { etcdClient } from "../../../src/drivers/etcd/open.js";
import { platform } from "../../../src/platform/index.js";

/** A member that does as it is told, and its address. */
async function member(
  answer: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<string> {
  const server = createServer((request, response) => {
    request.resume().once("end", () => answer(request, response));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

function clientOn(...hosts: readonly string[]): EtcdClient {
  const client = etcdClient(hosts);
  onTestFinished(() => client.close());
  return client;
}

const good = (): Promise<string> =>
  member((_, response) => void response.end('{"succeeded":true}'));
/** The request has come; its answer never will. */
const broken = (): Promise<string> => member((request) => void request.socket.destroy());
const refusing = (error: string, code: number): Promise<string> =>
  member((_, response) => void response.writeHead(503).end(JSON.stringify({ error, code })));

/** Where nobody answers all of it passes; where somebody does, next to nothing. */
const options = { during: "test", timeoutMs: 500 };
const enough = { during: "test", timeoutMs: 5_000 };

describe("of a request to etcd that brought no answer", () => {
  it.each<[string, () => Promise<string>]>([
    ["whose connection broke once it had been sent", broken],
    ["that a member gave up", () => refusing("etcdserver: request timed out", 14)],
    ["that ended in an error that nobody knows", () => refusing("something else", 13)],
  ])("%s, the outcome is unknown, and a copy may come", async (_, make) => {
    const alone = clientOn(await make());
    await expect(alone.ask("kv/txn", {}, options)).rejects.toBeInstanceOf(OutcomeUnknownError);
    const read = alone.ask("kv/range", {}, { ...options, isRead: true });
    await expect(read).rejects.toBeInstanceOf(UnavailableError);
    const two = clientOn(await make(), await good());
    expect(await two.ask("kv/txn", {}, enough)).toMatchObject({
      body: { succeeded: true },
      isLoose: true,
    });
  });

  it("that a member without a leader refused, nothing has happened", async () => {
    const leaderless = (): Promise<string> => refusing("etcdserver: no leader", 14);
    const alone = clientOn(await leaderless());
    await expect(alone.ask("kv/txn", {}, { ...options, timeoutMs: 2_000 })).rejects.toMatchObject({
      family: "unavailable",
      retryable: true,
    });
    const two = clientOn(await leaderless(), await good());
    expect(await two.ask("kv/txn", {}, enough)).toMatchObject({ isLoose: false });
  });

  it("whose time was over before its login had been answered, nothing has been sent", async () => {
    const real = platform();
    let aheadMs = 0;
    const clock = { ...real.clock, monotonicMs: () => real.clock.monotonicMs() + aheadMs };
    const asked: (string | undefined)[] = [];
    const host = await member(({ url }, response) => {
      asked.push(url);
      aheadMs += 1_000;
      response.end('{"token":"t"}');
    });
    const access = { user: "me", password: "secret" };
    const client = etcdClient([host], access, { ...real, clock });
    onTestFinished(() => client.close());
    await expect(client.ask("kv/txn", {}, options)).rejects.toMatchObject({
      family: "unavailable",
      message: "cannot test: no time was left to send it",
    });
    expect(asked).toEqual(["/v3/auth/authenticate"]);
  });
});
