import { GetItemCommand, UpdateItemCommand, type DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { dynamodb } from "../../src/backends/dynamodb/open.js";
import { LeaseLostError, StaleTokenError, UnavailableError } from "../../src/core/errors.js";
import { adoptDynamo } from "../../src/drivers/dynamodb/open.js";
import { dynamodbStore } from "../../src/fences/dynamodb/index.js";
import { dynamodbFence } from "../../src/fences/dynamodb/open.js";
import type { DynamodbReader, DynamodbTx } from "../../src/fences/dynamodb/transaction.js";
import { platform } from "../../src/platform/index.js";
import { gatewayTo, type Fate, type Gateway } from "../backends/dynamodb/rig.js";
import { readyTable } from "../conformance/dynamodb-subject.js";
import {
  dynaliteProgram,
  motoProgram,
  startDynamodb,
  type DynamodbServer,
} from "../servers/dynamodb.js";
import { describeOn, type Program } from "../servers/find.js";
import { bearer } from "./bearers.js";
import { fenceSuite } from "./suite.js";

const PASS: Fate = { isPassedOn: true };

interface Bench {
  readonly server: DynamodbServer;
  readonly table: string;
  readonly client: DynamoDBClient;
}

/** A server of one kind for all tests of a suite. */
function benchOn(program: Program): () => Bench {
  let bench: Bench | undefined;
  beforeAll(async () => {
    const server = await startDynamodb(program);
    bench = { server, table: await readyTable(server), client: server.client() };
  });
  afterAll(async () => {
    bench?.client.destroy();
    await bench?.server.dispose();
  });
  return () => bench!;
}

const call = { signal: new AbortController().signal, timeoutMs: 10_000 };

for (const program of [dynaliteProgram, motoProgram]) {
  describeOn(program, `dynamodb fence on ${program.name}`, () => {
    const bench = benchOn(program);
    let count = 0;

    fenceSuite<DynamodbTx, DynamodbReader>({
      name: "dynamodb fence",
      work: "async",
      open: async () => {
        const { client, table } = bench();
        const space = `fence${count++}/`;
        const key = (resource: string): { pk: { S: string } } => ({ pk: { S: space + resource } });
        const get = (tx: DynamodbReader): number | undefined => {
          const { N: digits } = (tx.get("balance") ?? {}) as { readonly N?: string };
          return digits === undefined ? undefined : Number(digits);
        };
        return {
          store: dynamodbStore(adoptDynamo(client, platform()), { table, key }, () =>
            platform().random.id(),
          ),
          get: (tx) => get(tx),
          put: (tx, _resource, value) => tx.set("balance", { N: String(value) }),
          loseMark: async (resource) => {
            await client.send(
              new UpdateItemCommand({
                TableName: table,
                Key: key(resource),
                UpdateExpression: "REMOVE tenureMark",
              }),
            );
          },
          close: async () => undefined,
        };
      },
    });

    describe("a write", () => {
      it("sets, adds and removes attributes of the item in one step", async () => {
        const { client, table } = bench();
        const fence = dynamodbFence({ client, table });
        const handle = await fence.arm(bearer(7n), "several");
        await handle.write((tx) => {
          tx.set("owner", { S: "ada" });
          tx.set("draft", { BOOL: true });
          tx.add("balance", 2n ** 60n);
        });
        await handle.write((tx) => {
          tx.add("balance", 1);
          tx.remove("draft");
        });
        const item = await handle.read((reader) => reader.item);
        const balance = { N: String(2n ** 60n + 1n) };
        expect(item).toEqual({ pk: { S: "several" }, owner: { S: "ada" }, balance });
      });

      it("is not applied when an unfenced path changed what it had read", async () => {
        const { client, table } = bench();
        const fence = dynamodbFence({ client, table });
        const handle = await fence.arm(bearer(7n), "unfenced");
        await handle.write((tx) => tx.set("stock", { N: "5" }));
        const late = handle.write(async (tx) => {
          const stock = Number(tx.get("stock")?.["N"]);
          await client.send(
            new UpdateItemCommand({
              TableName: table,
              Key: { pk: { S: "unfenced" } },
              UpdateExpression: "SET stock = :nine",
              ExpressionAttributeValues: { ":nine": { N: "9" } },
            }),
          );
          tx.set("stock", { N: String(stock - 1) });
        });
        await expect(late).rejects.toThrow(UnavailableError);
        await expect(late).rejects.toThrow(/has changed since/);
        expect(await handle.read((tx) => tx.get("stock"))).toEqual({ N: "9" });
      });

      it.each<[string, Fate]>([
        ["lost", { isPassedOn: true, answer: "silence" }],
        ["a 500", { isPassedOn: true, answer: { status: 500, type: "InternalServerError" } }],
      ])("that was done though its answer is %s is done, once", async (title, fate) => {
        const { server, table } = bench();
        const gateway = await gatewayTo(server);
        const client = server.client({ endpoint: gateway.endpoint });
        onTestFinished(() => client.destroy());
        const fence = dynamodbFence({ client, table });
        const once = (): Gateway["fate"] => {
          const fates = [fate];
          return (operation) => (operation === "UpdateItem" && fates.shift()) || PASS;
        };
        gateway.fate = once();
        const handle = await fence.arm(bearer(7n), `answer ${title}`);
        expect(handle.arm).toBe(1);
        gateway.fate = once();
        await handle.write((tx) => tx.add("balance", 5));
        gateway.fate = () => PASS;
        expect(await handle.read((tx) => tx.get("balance"))).toEqual({ N: "5" });
        expect(await fence.mark(`answer ${title}`)).toMatchObject({ arm: 1, n: 1 });
      });

      it("names what is wrong with its arguments, and sends nothing", async () => {
        const { client, table } = bench();
        const fence = dynamodbFence({ client, table });
        const handle = await fence.arm(bearer(7n), "wrong");
        const wrong: [option: string, work: (tx: DynamodbTx) => void][] = [
          ["attribute", (tx) => tx.set("pk", { S: "x" })],
          ["attribute", (tx) => tx.remove("tenureMark")],
          ["attribute", (tx) => tx.set("", { S: "x" })],
          ["value", (tx) => tx.set("a", "x" as never)],
          ["amount", (tx) => tx.add("a", NaN)],
          ["action", (tx) => tx.also({ Query: {} } as never)],
          ["work", (tx) => Array.from({ length: 100 }, () => tx.also({ Put: {} }))],
        ];
        for (const [option, work] of wrong) {
          await expect(handle.write(work)).rejects.toMatchObject({ option });
        }
        expect((await fence.mark("wrong"))?.n).toBe(0);
        expect(() => dynamodbFence({ client, table: "a" })).toThrow(/table/);
        expect(() => dynamodbFence({ client: 7 as never, table })).toThrow(/client/);
      });

      it("guards an item with keys of its own, and takes nothing else for a mark", async () => {
        const { server, client } = bench();
        const table = await server.makeTable({
          AttributeDefinitions: ["shop", "sku"].map((AttributeName) => ({
            AttributeName,
            AttributeType: "S",
          })),
          KeySchema: [
            { AttributeName: "shop", KeyType: "HASH" },
            { AttributeName: "sku", KeyType: "RANGE" },
          ],
        });
        const plain = adoptDynamo(client, platform());
        const look = { ...call, during: "look" };
        const status = async (): Promise<string | undefined> =>
          (await plain.describe(table, look))?.status;
        await expect.poll(status, { timeout: 20_000 }).toBe("ACTIVE");
        const key = (resource: string): { shop: { S: string }; sku: { S: string } } => {
          const [shop, sku] = resource.split("/");
          return { shop: { S: shop! }, sku: { S: sku! } };
        };
        const fence = dynamodbFence({ client, table, key });
        const handle = await fence.arm(bearer(7n), "berlin/7");
        await handle.write((tx) => tx.set("left", { N: "3" }));
        const Key = key("berlin/7");
        const { Item } = await client.send(new GetItemCommand({ TableName: table, Key }));
        expect(Item).toMatchObject({ left: { N: "3" }, shop: { S: "berlin" } });
        const other = dynamodbFence({ client, table, key, attribute: "left" });
        await expect(other.arm(bearer(8n), "berlin/7")).rejects.toThrow(/left.*no mark/);
      });
    });
  });
}

describeOn(motoProgram, "dynamodb fence with transactions", () => {
  const bench = benchOn(motoProgram);

  it("writes other items in the same step, or nothing of it", async () => {
    const { client, table } = bench();
    const fence = dynamodbFence({ client, table });
    const old = await fence.arm(bearer(7n), "order");
    const put = (pk: string): object => ({ TableName: table, Item: { pk: { S: pk } } });
    const has = async (pk: string): Promise<boolean> => {
      const get = new GetItemCommand({ TableName: table, Key: { pk: { S: pk } } });
      return (await client.send(get)).Item !== undefined;
    };
    await old.write((tx) => {
      tx.set("state", { S: "paid" });
      tx.also({ Put: put("receipt") });
    });
    expect(await has("receipt")).toBe(true);
    await fence.arm(bearer(8n), "order");
    const stale = old.write((tx) => tx.also({ Put: put("late") }));
    await expect(stale).rejects.toThrow(StaleTokenError);
    const refused = (await fence.arm(bearer(9n), "order")).write((tx) => {
      tx.set("state", { S: "sent" });
      const Put = { ...put("receipt"), ConditionExpression: "attribute_not_exists(pk)" };
      tx.also({ Put });
    });
    await expect(refused).rejects.toThrow(/action 1 of the transaction/);
    expect(await has("late")).toBe(false);
    const { Item } = await client.send(
      new GetItemCommand({ TableName: table, Key: { pk: { S: "order" } } }),
    );
    expect(Item?.["state"]).toEqual({ S: "paid" });
  });

  it("says that it was done where the answer is lost and a copy comes second", async () => {
    const { server, table } = bench();
    const gateway = await gatewayTo(server);
    const client = server.client({ endpoint: gateway.endpoint, maxAttempts: 2 });
    onTestFinished(() => client.destroy());
    const armed = await dynamodbFence({ client, table }).arm(bearer(7n), "copied");
    let lost = 0;
    gateway.fate = (seen) => {
      const isFirst = seen === "TransactWriteItems" && lost++ === 0;
      return isFirst ? { isPassedOn: true, answer: "silence" } : PASS;
    };
    await armed.write((tx) => {
      tx.add("times", 1);
      tx.also({ Put: { TableName: table, Item: { pk: { S: "copied-receipt" } } } });
    });
    expect(lost).toBe(2);
    const Key = { pk: { S: "copied" } };
    const { Item } = await client.send(new GetItemCommand({ TableName: table, Key }));
    expect(Item?.["times"]).toEqual({ N: "1" });
  });

  it("writes while the record of the lease stands, and nothing after it", async () => {
    const { client, table } = bench();
    const backend = dynamodb({ client, table });
    await backend.open?.(call);
    const answer = await backend.acquire({ name: "acct: 7/é", holder: "h1", ttlMs: 60_000 }, call);
    if (!("grant" in answer)) throw new Error("the name is held");
    const lease = { ...answer.grant, storeId: backend.storeId };
    const fence = dynamodbFence({ client, table });
    const add = {
      Update: {
        TableName: table,
        Key: { pk: { S: "sum" } },
        UpdateExpression: "ADD visits :one",
        ExpressionAttributeValues: { ":one": { N: "1" } },
      },
    };
    await fence.held(lease, [add]);
    await backend.renew([answer.grant], call);
    await fence.held(lease, [add]);
    const stranger = fence.held({ ...lease, holder: "h2" }, [add]);
    await expect(stranger).rejects.toThrow(LeaseLostError);
    await expect(fence.held(lease, [])).rejects.toThrow(RangeError);
    await backend.release([answer.grant], call);
    await expect(fence.held(lease, [add])).rejects.toThrow(LeaseLostError);
    const { Item } = await client.send(
      new GetItemCommand({ TableName: table, Key: { pk: { S: "sum" } } }),
    );
    expect(Item?.["visits"]).toEqual({ N: "2" });
    await backend.close();
  });
});
