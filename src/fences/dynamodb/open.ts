import { checkKnown, checkObject } from "../../core/options.js";
import { checkTable } from "../../drivers/dynamodb/address.js";
import type { DynamoSender } from "../../drivers/dynamodb/contract.js";
import { adoptDynamo } from "../../drivers/dynamodb/open.js";
import { platform } from "../../platform/index.js";
import type { OnStale } from "../contract.js";
import { createDynamodbFence, type DynamodbFence, type DynamodbFenceOptions } from "./index.js";

export type { FencingToken, TokenBearer } from "../../core/token.js";
export type { AttributeValue, DynamoSender, Item } from "../../drivers/dynamodb/contract.js";
export { armAll, type ArmedAll } from "../arm-all.js";
export type * from "../contract.js";
export type { Mark, Scope } from "../decide.js";
export type { DynamodbFence, DynamodbFenceOptions } from "./index.js";
export type { DynamodbReader, DynamodbTx, TransactAction } from "./transaction.js";

/** What a fence guards, and through which client. */
export interface DynamodbFenced<S extends OnStale = "reject"> extends DynamodbFenceOptions<S> {
  /** A `DynamoDBClient` of `@aws-sdk/client-dynamodb`. It stays the caller's to destroy. */
  readonly client: DynamoSender;
}

const OPTIONS = ["client", "table", "key", "attribute", "leaseTable", "onStale"] as const;

/**
 * Fence over the items of a table of DynamoDB.
 *
 * @throws TypeError or RangeError for wrong options.
 */
export function dynamodbFence<S extends OnStale = "reject">(
  options: DynamodbFenced<S>,
): DynamodbFence<S> {
  checkObject(options, "options");
  checkKnown(options, OPTIONS);
  const { client, ...settings } = options;
  const runtime = platform();
  checkTable(settings.table);
  if (settings.leaseTable !== undefined) checkTable(settings.leaseTable, "leaseTable");
  return createDynamodbFence<S>({ client: adoptDynamo(client, runtime), runtime }, settings);
}
