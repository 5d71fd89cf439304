import { GetItemCommand, type DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { dynamodb, type DynamodbBackend } from "../../../src/backends/dynamodb/open.js";
import { keyOf } from "../../../src/backends/dynamodb/record.js";
import { OutcomeUnknownError, UnavailableError } from "../../../src/core/errors.js";
import { Tenure } from "../../../src/core/tenure.js";
import { platform } from "../../../src/platform/index.js";
import { readyTable } from "../../conformance/dynamodb-subject.js";
import { dynaliteProgram, startDynamodb, type DynamodbServer } from "../../servers/dynamodb.js";
import { describeOn } from "../../servers/find.js";
import { call, gatewayTo, take, wish, type Fate, type Gateway } from "./rig.js";

const PASS: Fate = { isPassedOn: true };
const THROTTLED: Fate = {
  isPassedOn: false,
  answer: { status: 400, type: "ProvisionedThroughputExceededException" },
};
const DOWN: Fate = { isPassedOn: false, answer: { status: 503, type: "ServiceUnavailable" } };
const BROKEN: Fate = { isPassedOn: false, answer: { status: 500, type: "InternalServerError" } };
/** Carried out, and the answer is lost, or says that it was not. */
const LOST: Fate = { isPassedOn: true, answer: "silence" };
const LIED: Fate = { isPassedOn: true, answer: { status: 500, type: "InternalServerError" } };

/** The first of these operations meets one fate, all else passes. */
function first(operation: string, fate: Fate): Gateway["fate"] {
  let met = false;
  return (seen) => {
    if (met || seen !== operation) return PASS;
    met = true;
    return fate;
  };
}

const always =
  (fate: Fate): Gateway["fate"] =>
  () =>
    fate;

describeOn(dynaliteProgram, "dynamodb that fails", () => {
  let server: DynamodbServer;
  let table: string;
  beforeAll(async () => {
    server = await startDynamodb(dynaliteProgram);
    table = await readyTable(server);
  });
  afterAll(() => server.dispose());

  /** A client through a gateway, and a backend on it, open. */
  async function through(attempts = 3): Promise<{
    readonly gateway: Gateway;
    readonly backend: DynamodbBackend;
    readonly client: DynamoDBClient;
  }> {
    const gateway = await gatewayTo(server);
    const client = server.client({ endpoint: gateway.endpoint, maxAttempts: attempts });
    onTestFinished(() => client.destroy());
    const backend = dynamodb({ client, table });
    await backend.open?.(call);
    return { gateway, backend, client };
  }

  const record = async (name: string): Promise<Record<string, any>> => {
    const client = server.client();
    const Key = keyOf(name) as { pk: { S: string } };
    const { Item } = await client.send(new GetItemCommand({ TableName: table, Key }));
    client.destroy();
    return Item ?? {};
  };

  describe("before it did anything", () => {
    it.each([
      ["throttling", THROTTLED],
      ["503", DOWN],
    ])("%s is unavailable, in all attempts, and worth a retry", async (_title, fate) => {
      const { gateway, backend } = await through(2);
      const grant = await take(backend, wish("busy"));
      gateway.fate = always(fate);
      const before = gateway.operations.length;
      const trying = backend.acquire(wish("busy"), call);
      await expect(trying).rejects.toThrow(UnavailableError);
      await expect(trying).rejects.toMatchObject({ retryable: true });
      expect(gateway.operations.length - before).toBe(2);
      expect(await backend.renew([grant], call)).toEqual(["unavailable"]);
      await expect(backend.release([grant], call)).rejects.toThrow(UnavailableError);
      await expect(backend.inspect("busy", call)).rejects.toThrow(UnavailableError);
      gateway.fate = always(PASS);
      expect(await backend.release([grant], call)).toEqual(["released"]);
    });

    it("a write that meets a transaction on its item is sent again", async () => {
      const { gateway, backend } = await through(1);
      const answer = { status: 400, type: "TransactionConflictException" };
      const fates: Fate[] = [answer, answer].map((each) => ({ isPassedOn: false, answer: each }));
      gateway.fate = () => fates.shift() ?? PASS;
      const grant = await take(backend, wish("conflict"));
      gateway.fate = always({ isPassedOn: false, answer });
      expect(await backend.renew([grant], call)).toEqual(["unavailable"]);
    });

    it("never prolongs what a holder believes: it is lost at its deadline", async () => {
      const { gateway, backend } = await through();
      const tenure = await Tenure.open(backend, platform(), {});
      const lease = await tenure.acquire("believed", { ttl: 1_500 });
      gateway.fate = always(THROTTLED);
      const startMs = performance.now();
      await new Promise<void>((lost) => {
        lease.signal.addEventListener("abort", () => lost(), { once: true });
      });
      expect(lease.signal.reason).toMatchObject({ reason: "deadline" });
      expect(lease.remaining()).toBeLessThanOrEqual(150);
      expect(performance.now() - startMs).toBeGreaterThan(500);
      expect(() => lease.assertHeld(150)).toThrow();
      gateway.fate = always(PASS);
      await tenure.close();
    });

    it("a short spell of it loses nothing", async () => {
      const { gateway, backend } = await through(1);
      const tenure = await Tenure.open(backend, platform(), {});
      const lease = await tenure.acquire("spell", { ttl: 3_000 });
      const before = gateway.operations.length;
      gateway.fate = () => (gateway.operations.length - before <= 3 ? DOWN : PASS);
      await expect
        .poll(() => gateway.operations.length - before, { timeout: 10_000 })
        .toBeGreaterThan(3);
      await lease.renew();
      expect(lease.state).toBe("held");
      await tenure.close();
    });
  });

  describe("after it may have done something", () => {
    it.each([
      ["a lost answer", LOST],
      ["a 500", LIED],
    ])("%s to a grant gives the same grant, and none beside it", async (title, fate) => {
      const { gateway, backend } = await through();
      const name = `grant-${title}`;
      const old = await take(backend, wish(name));
      await backend.release([old], call);
      gateway.fate = first("UpdateItem", fate);
      const grant = await take(backend, wish(name));
      expect(grant.token).toBe(old.token + 1n);
      expect(await record(name)).toMatchObject({ token: { N: String(grant.token) } });
      expect(await backend.renew([grant], call)).toEqual(["renewed"]);
    });

    it.each([
      ["a lost answer", LOST],
      ["a 500", LIED],
    ])("%s to a release is a release, and the next one is none", async (title, fate) => {
      const { gateway, backend } = await through();
      const grant = await take(backend, wish(`release-${title}`));
      gateway.fate = first("UpdateItem", fate);
      expect(await backend.release([grant], call)).toEqual(["released"]);
      expect(await backend.release([grant], call)).toEqual(["not-held"]);
      const next = await take(backend, wish(`release-${title}`));
      gateway.fate = first("UpdateItem", fate);
      expect(await backend.break(next.name, next.token, call)).toBe(true);
      expect(await backend.break(next.name, next.token, call)).toBe(false);
    });

    it.each([
      ["a lost answer", LOST],
      ["a 500", LIED],
    ])("%s to a renewal is no loss", async (title, fate) => {
      const { gateway, backend } = await through();
      const grant = await take(backend, wish(`renew-${title}`));
      gateway.fate = first("UpdateItem", fate);
      expect(await backend.renew([grant], call)).toEqual(["renewed"]);
    });

    it("without a second attempt a 500 is looked into: not done is unavailable", async () => {
      const { gateway, backend } = await through(1);
      gateway.fate = first("UpdateItem", BROKEN);
      await expect(backend.acquire(wish("broken"), call)).rejects.toThrow(UnavailableError);
      expect(await record("broken")).toEqual({});
      const grant = await take(backend, wish("broken"));
      gateway.fate = first("UpdateItem", BROKEN);
      await expect(backend.release([grant], call)).rejects.toThrow(UnavailableError);
      gateway.fate = first("UpdateItem", LIED);
      expect(await backend.release([grant], call)).toEqual(["released"]);
    });

    it("without an answer at all the outcome is unknown, also after a throttled attempt", async () => {
      const { gateway, backend } = await through(2);
      const fates = [LOST, THROTTLED];
      gateway.fate = () => fates.shift() ?? THROTTLED;
      await expect(backend.acquire(wish("unknown"), call)).rejects.toThrow(OutcomeUnknownError);
      gateway.fate = always(BROKEN);
      await expect(backend.acquire(wish("unknown"), call)).rejects.toThrow(OutcomeUnknownError);
      await expect(backend.inspect("unknown", call)).rejects.toThrow(UnavailableError);
    });

    it("what was granted to nobody is given back", async () => {
      const { gateway, backend } = await through(1);
      const old = await take(backend, wish("orphan"));
      await backend.release([old], call);
      const tenure = await Tenure.open(backend, platform(), {});
      gateway.fate = first("UpdateItem", LOST);
      await expect(tenure.tryAcquire("orphan")).rejects.toThrow(OutcomeUnknownError);
      await expect
        .poll(async () => (await record("orphan"))["isFree"], { timeout: 10_000 })
        .toEqual({ BOOL: true });
      await tenure.close();
    });

    it("one renewal that hangs does not take the answers of its neighbours with it", async () => {
      const { gateway, backend } = await through();
      const names = ["hangs", "neighbour-1", "neighbour-2"];
      const grants = await Promise.all(names.map((name) => take(backend, wish(name))));
      gateway.fate = first("UpdateItem", { isPassedOn: false, answer: "never" });
      const ending = new AbortController();
      const outcomes = await backend.renew(grants, { signal: ending.signal, timeoutMs: 1_000 });
      ending.abort();
      expect([...outcomes].sort()).toEqual(["renewed", "renewed", "unknown"]);
    });

    it("late-release, zombie-commands: copies that come late change nothing of the next", async () => {
      const { gateway, backend } = await through();
      const old = await take(backend, wish("zombie"));
      const other = dynamodb({ client: server.client(), table });
      await other.open?.(call);
      gateway.fate = first("UpdateItem", LOST);
      const releasing = backend.release([old], call);
      await expect
        .poll(async () => (await record("zombie"))["isFree"], { timeout: 10_000 })
        .toEqual({ BOOL: true });
      const next = await take(other, wish("zombie"));
      // Whether the second attempt met the next holder or not.
      expect(["released", "not-held"]).toContain((await releasing)[0]);
      expect(await backend.renew([old], call)).toMatchObject([{ lost: { token: next.token } }]);
      expect(await backend.release([old], call)).toEqual(["not-held"]);
      expect(await other.renew([next], call)).toEqual(["renewed"]);
    });

    it("a write that was done, and whose copy met a transaction, is done", async () => {
      const { gateway, backend } = await through(2);
      const grant = await take(backend, wish("met"));
      const conflict = { status: 400, type: "TransactionConflictException" };
      const updates: Fate[] = [LIED, { isPassedOn: false, answer: conflict }];
      gateway.fate = (seen) => (seen === "UpdateItem" ? (updates.shift() ?? THROTTLED) : PASS);
      expect(await backend.release([grant], call)).toEqual(["released"]);
      expect((await record("met"))["isFree"]).toEqual({ BOOL: true });
    });

    it("a copy of a renewal that comes late puts no older version back", async () => {
      const { backend } = await through();
      const grant = await take(backend, wish("versions"));
      const versions = new Set<string>();
      for (let copy = 0; copy < 4; copy++) {
        await backend.renew([grant], call);
        versions.add((await backend.inspect("versions", call))!.version!);
      }
      expect(versions.size).toBe(4);
    });
  });

  describe("its connection", () => {
    it("refused is unavailable, and a request that is ended is unknown", async () => {
      const client = server.client({ endpoint: "http://127.0.0.1:9" });
      const backend = dynamodb({ client, table });
      await expect(backend.open?.(call)).rejects.toThrow(/ECONNREFUSED/);
      await expect(backend.open?.(call)).rejects.toThrow(UnavailableError);
      client.destroy();
      const { gateway, backend: open } = await through();
      const ending = new AbortController();
      gateway.fate = () => {
        ending.abort();
        return LOST;
      };
      const trying = open.acquire(wish("ended"), { signal: ending.signal, timeoutMs: 1_000 });
      await expect(trying).rejects.toThrow(OutcomeUnknownError);
    });
  });
});
