import { DynamoDBClient, type CreateTableCommandInput } from "@aws-sdk/client-dynamodb";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { dynamodbBackend, type DynamodbBackend } from "../../../src/backends/dynamodb/index.js";
import { dynamodb, tableDefinition } from "../../../src/backends/dynamodb/open.js";
import type { Client, TableFacts } from "../../../src/backends/dynamodb/client.js";
import { connect } from "../../../src/connect.js";
import { GuaranteeError, UnavailableError } from "../../../src/core/errors.js";
import { adoptDynamo } from "../../../src/drivers/dynamodb/open.js";
import { platform } from "../../../src/platform/index.js";
import { readyTable } from "../../conformance/dynamodb-subject.js";
import { dynaliteProgram, startDynamodb, type DynamodbServer } from "../../servers/dynamodb.js";
import { describeOn } from "../../servers/find.js";
import { call, Machine, runtimeOf, take, wish } from "./rig.js";

const PATIENT = { timeout: 20_000 };

describeOn(dynaliteProgram, "opening a table of dynamodb", () => {
  let server: DynamodbServer;
  let client: DynamoDBClient;
  let table: string;
  beforeAll(async () => {
    server = await startDynamodb(dynaliteProgram);
    client = server.client();
    table = await readyTable(server);
  });
  afterAll(async () => {
    client.destroy();
    await server.dispose();
  });

  /** A backend that is told other things of its table than the server would. */
  function told(
    facts: Partial<TableFacts>,
    more: Partial<Client> = {},
  ): { readonly backend: DynamodbBackend; readonly events: () => readonly string[] } {
    const machine = new Machine("boot");
    const runtime = runtimeOf(machine);
    const real = adoptDynamo(client, runtime);
    const backend = dynamodbBackend({
      client: {
        update: (update, during) => real.update(update, during),
        get: (from, key, during) => real.get(from, key, during),
        scan: (filter, during) => real.scan(filter, during),
        describe: async (name, during) => ({ ...(await real.describe(name, during))!, ...facts }),
        timeToLive: async () => ({ deletesBy: undefined }),
        isService: async () => true,
        ...more,
      },
      table,
      runtime,
      machine: async () => machine,
    });
    const warnings = (): readonly string[] =>
      runtime.seen.flatMap((event) => (event.type === "warning" ? [event.message] : []));
    return { backend, events: warnings };
  }

  it("tells that the table is missing, and how to make it", async () => {
    const missing = dynamodb({ client, table: "nowhere" });
    await expect(missing.open?.(call)).rejects.toThrow(UnavailableError);
    await expect(missing.open?.(call)).rejects.toThrow(/no such table.*tenure migrate --print/);
    await expect(missing.open?.(call)).rejects.toMatchObject({ retryable: false });
  });

  it.each<[string, Partial<CreateTableCommandInput>, RegExp]>([
    [
      "another name",
      {
        AttributeDefinitions: [{ AttributeName: "id", AttributeType: "S" }],
        KeySchema: [{ AttributeName: "id", KeyType: "HASH" }],
      },
      /has the key \(id S HASH\).*\(pk S HASH\)/,
    ],
    [
      "another type",
      { AttributeDefinitions: [{ AttributeName: "pk", AttributeType: "N" }] },
      /has the key \(pk N HASH\)/,
    ],
    [
      "a second part",
      {
        AttributeDefinitions: ["pk", "sk"].map((AttributeName) => ({
          AttributeName,
          AttributeType: "S",
        })),
        KeySchema: [
          { AttributeName: "pk", KeyType: "HASH" },
          { AttributeName: "sk", KeyType: "RANGE" },
        ],
      },
      /has the key \(pk S HASH, sk S RANGE\)/,
    ],
  ])("refuses a table whose key has %s", async (_title, other, complaint) => {
    const wrong = await server.makeTable(other);
    const backend = dynamodb({ client, table: wrong });
    // While it is being made, that is what is wrong with it.
    await expect
      .poll(() => backend.open?.(call).catch((error: unknown) => String(error)), PATIENT)
      .toMatch(complaint);
    await expect(backend.open?.(call)).rejects.toMatchObject({ retryable: false });
  });

  it("waits for a table that is being made: it is worth a retry", async () => {
    const { backend } = told({ status: "CREATING" });
    await expect(backend.open?.(call)).rejects.toMatchObject({ retryable: true });
  });

  it("refuses a table that deletes leases by time, and warns of one that may", async () => {
    for (const deletesBy of ["ttlMs", "untilMs", "floor"]) {
      const { backend } = told({}, { timeToLive: async () => ({ deletesBy }) });
      await expect(backend.open?.(call)).rejects.toThrow(GuaranteeError);
    }
    const other = told({}, { timeToLive: async () => ({ deletesBy: "expires" }) });
    await other.backend.open?.(call);
    expect(other.events()).toEqual([expect.stringMatching(/by the attribute expires/)]);
  });

  it("goes on with warnings where it may not ask", async () => {
    const { backend, events } = told(
      {},
      { describe: async () => undefined, timeToLive: async () => undefined },
    );
    await backend.open?.(call);
    await take(backend, wish("unasked"));
    expect(events()).toHaveLength(2);
  });

  it("promises less for a global table whose last writer wins, and for one's own server", async () => {
    const { backend, events } = told({ isEventual: true });
    await backend.open?.(call);
    expect(backend.manifest.tokens).toBe("until-failover");
    expect(events()).toEqual([expect.stringMatching(/eventual consistency/)]);
    const service = told({});
    await service.backend.open?.(call);
    expect(service.backend.manifest.tokens).toBe("consensus");
    const own = dynamodb({ client, table });
    await own.open?.(call);
    expect(own.manifest.tokens).toBe("durable");
    await expect(connect(own, { require: "consensus" })).rejects.toThrow(GuaranteeError);
  });

  it("tells that credentials or the region are missing", async () => {
    const nobody = async (): Promise<never> => {
      throw Object.assign(new Error("none of the providers has any"), {
        name: "CredentialsProviderError",
      });
    };
    const without = new DynamoDBClient({ region: "eu-west-1", credentials: nobody });
    const backend = dynamodb({ client: without, table });
    await expect(backend.open?.(call)).rejects.toThrow(UnavailableError);
    await expect(backend.open?.(call)).rejects.toThrow(/no AWS credentials/);
    await expect(backend.open?.(call)).rejects.toMatchObject({ retryable: false });
    const region = (): Promise<string> => Promise.reject(new Error("Region is missing"));
    const nowhere = dynamodb({ client: server.client({ region }), table });
    await expect(nowhere.open?.(call)).rejects.toThrow(/no AWS region/);
  });

  it("is one store for all clients, and keeps its id", async () => {
    const backends = await Promise.all(
      Array.from({ length: 5 }, async () => {
        const backend = dynamodb({ client, table });
        await backend.open?.(call);
        return backend.storeId;
      }),
    );
    expect(new Set(backends).size).toBe(1);
  });

  it("takes a foreign item at a key of its own for neither free nor held", async () => {
    const { backend } = told({});
    await backend.open?.(call);
    const real = adoptDynamo(client, platform());
    await real.update(
      {
        TableName: table,
        Key: { pk: { S: "lease:foreign" } },
        UpdateExpression: "SET #a = :a",
        ConditionExpression: "attribute_not_exists(pk)",
        ExpressionAttributeNames: { "#a": "a" },
        ExpressionAttributeValues: { ":a": { S: "hello" } },
      },
      { ...call, during: "write" },
    );
    const trying = backend.acquire(wish("foreign"), call);
    await expect(trying).rejects.toThrow(/"lease:foreign" holds something that is no lease/);
  });
});

describe("where a table of dynamodb is", () => {
  it.each([
    "dynamodb:",
    "dynamodb://",
    "dynamodb://ab",
    "dynamodb://key:secret@table",
    "dynamodb://table:80",
    "dynamodb://table?endpoint=ftp://x",
    "dynamodb://table?region=eu west",
    "dynamodb://table?colour=red",
    "dynamodb://table?maxSkew=soon",
    "dynamodb://eu-west-1/a/b",
  ])("%s is refused, and not repeated", async (url) => {
    const error = await connect(url).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(TypeError);
    expect((error as Error).message).not.toContain("secret");
  });

  it.each(["dynamodb://Locks_1?region=eu-west-1", "dynamodb://eu-west-1/Locks_1"])(
    "%s names table and region",
    async (url) => {
      const { parseAddress } = await import("../../../src/drivers/dynamodb/address.js");
      expect(parseAddress(url)).toMatchObject({ table: "Locks_1", region: "eu-west-1" });
    },
  );

  it("may ask for the wall clock", () => {
    expect(dynamodb("dynamodb://table?maxSkew=5s").manifest.expiryClock).toBe("observed");
    expect(() => dynamodb("dynamodb://table?maxSkew=0")).toThrow(/wallClock.maxSkew/);
  });

  it("refuses what is no client or no table", () => {
    const client = { send: async () => undefined };
    expect(() => dynamodb({ client: {} as never, table: "abc" })).toThrow(/client/);
    expect(() => dynamodb({ client, table: "a b" })).toThrow(/table/);
    expect(() => dynamodb({ client, table: "abc", tabel: 1 } as never)).toThrow(/tabel/);
    const arn = "arn:aws:dynamodb:eu-west-1:123456789012:table/locks";
    expect(dynamodb({ client, table: arn }).manifest.backend).toBe("dynamodb");
  });

  it("is printed in three forms, without TTL and protected", () => {
    const json = JSON.parse(tableDefinition({ table: "locks" })) as Record<string, unknown>;
    expect(json).toMatchObject({ TableName: "locks", DeletionProtectionEnabled: true });
    for (const form of ["cloudformation", "terraform"] as const) {
      const text = tableDefinition({ table: "locks", form });
      expect(text).toMatch(/"locks"/);
      expect(text).toMatch(/protection_?enabled/i);
      expect(text).not.toMatch(/^\s*(ttl|TimeToLiveSpecification)/m);
    }
    expect(() => tableDefinition({ table: 'a"b' })).toThrow(/table/);
  });
});
