/**
 * A process that waits for a lease, arms a fence and writes, and says what it does. `hold` writes
 * until the fence refuses, whatever became of the lease; `once` writes once and releases.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { dynamodb } from "../../../src/backends/dynamodb/open.js";
import { connect } from "../../../src/connect.js";
import { dynamodbFence } from "../../../src/fences/dynamodb/open.js";

const [endpoint, table, name, order] = process.argv.slice(2) as [string, string, string, string];
const credentials = { accessKeyId: "test", secretAccessKey: "test" };
const client = new DynamoDBClient({ endpoint, region: "eu-west-1", credentials });
const say = (what: object): void => void process.stdout.write(`${JSON.stringify(what)}\n`);

const tenure = await connect(dynamodb({ client, table }));
const lease = await tenure.acquire(name, { ttl: "2s" });
const { token, holder, storeId } = lease;
// As it would be read from a message: only the mark decides.
const bearer = { name, token, holder, storeId };
const handle = await dynamodbFence({ client, table }).arm(bearer, `sum of ${name}`);
await handle.write((tx) => tx.add("value", 1));
say({ token: String(token) });
let refusal: unknown;
while (order === "hold" && refusal === undefined) {
  await sleep(20);
  refusal = await handle.write((tx) => tx.add("value", 1)).then(
    () => undefined,
    (error: unknown) => error,
  );
}
if (refusal !== undefined) {
  say({ state: lease.state, refusal: (refusal as { readonly code?: string }).code });
}
await tenure.close();
client.destroy();
