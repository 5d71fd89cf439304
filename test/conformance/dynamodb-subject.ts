import { setTimeout as sleep } from "node:timers/promises";
import {
  DeleteItemCommand,
  type DynamoDBClient,
  GetItemCommand,
  PutItemCommand,
  ScanCommand,
  TransactWriteItemsCommand,
  UpdateItemCommand,
  waitUntilTableExists,
} from "@aws-sdk/client-dynamodb";
import { dynamodb, type DynamodbProof } from "../../src/backends/dynamodb/open.js";
import { keyOf } from "../../src/backends/dynamodb/record.js";
import { Tenure } from "../../src/core/tenure.js";
import { platform } from "../../src/platform/index.js";
import { realTime, type Subject } from "../../src/testing/subject.js";
import type { DynamodbServer } from "../servers/dynamodb.js";

/** Sockets and timers that keep the process alive. */
const handles = (): number =>
  process.getActiveResourcesInfo().filter((kind) => /Wrap|Timeout|Immediate/.test(kind)).length;

/** What a server cannot do, or forgets. */
interface Lacks {
  readonly transactions?: boolean;
  readonly data?: boolean;
}

/** The dynamodb backend on a real server, all cases in one table. */
export function dynamodbSubject(
  server: DynamodbServer,
  table: string,
  lacks: Lacks = {},
): Subject {
  const run = async <R>(work: (client: DynamoDBClient) => Promise<R>): Promise<R> => {
    const client = server.client();
    try {
      return await work(client);
    } finally {
      client.destroy();
    }
  };
  return {
    time: realTime(sleep),
    connect: (backend) => Tenure.open(backend, platform(), { purpose: "efficiency" }),
    async open() {
      const handlesBefore = handles();
      return {
        connect: async () => {
          const [client, renewals] = [server.client(), server.client()];
          const backend = dynamodb({ client, renewals, table });
          // The clients are the caller's: this caller ends them with the backend.
          const close = async (): Promise<void> => {
            await backend.close();
            client.destroy();
            renewals.destroy();
          };
          return Object.create(backend, { close: { value: close } }) as typeof backend;
        },
        ...(lacks.data === true ? {} : { restart: () => server.restart() }),
        deleteRecord: (name) =>
          run(async (client) => {
            const Key = keyOf(name) as { pk: { S: string } };
            await client.send(new DeleteItemCommand({ TableName: table, Key }));
          }),
        sweep: () =>
          run(async (client) => {
            const { Items = [] } = await client.send(new ScanCommand({ TableName: table }));
            for (const { pk, isFree } of Items) {
              if (isFree?.BOOL !== true) continue;
              await client.send(new DeleteItemCommand({ TableName: table, Key: { pk: pk! } }));
            }
          }),
        presetToken: (name, token) =>
          run(async (client) => {
            const Item = {
              ...(keyOf(name) as { pk: { S: string } }),
              holder: { S: "before" },
              token: { N: String(token - 1n) },
              ttlMs: { N: "1000" },
              version: { N: "1" },
              isFree: { BOOL: true },
              seen: { M: {} },
            };
            await client.send(new PutItemCommand({ TableName: table, Item }));
          }),
        testProof: (proof) =>
          run((client) => holds(client, proof as DynamodbProof, lacks.transactions === true)),
        openHandles: () => handles() - handlesBefore,
      };
    },
  };
}

/** Without transactions the condition is tried alone, on a write that changes nothing. */
async function holds(
  client: DynamoDBClient,
  proof: DynamodbProof,
  isAlone: boolean,
): Promise<boolean> {
  const ConditionCheck = proof as never;
  const Put = { TableName: proof.TableName, Item: { pk: { S: "proved" } } };
  const command = isAlone
    ? new UpdateItemCommand(proof as never)
    : new TransactWriteItemsCommand({ TransactItems: [{ ConditionCheck }, { Put }] });
  const { TableName } = proof;
  await client.send(new DeleteItemCommand({ TableName, Key: { pk: { S: "proved" } } }));
  try {
    await client.send(command as UpdateItemCommand);
  } catch (error) {
    if (/ConditionalCheckFailed/.test(String(error))) return false;
    throw error;
  }
  if (isAlone) return true;
  const { Item } = await client.send(new GetItemCommand({ TableName, Key: { pk: { S: "proved" } } }));
  return Item !== undefined;
}

/** A table that can be used. */
export async function readyTable(server: DynamodbServer): Promise<string> {
  const table = await server.makeTable();
  const client = server.client();
  try {
    const bounds = { client, maxWaitTime: 20, minDelay: 1, maxDelay: 1 };
    await waitUntilTableExists(bounds, { TableName: table });
    return table;
  } finally {
    client.destroy();
  }
}
