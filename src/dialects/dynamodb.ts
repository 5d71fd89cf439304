/** Items of DynamoDB and their conditional writes, as its backend and its fence name them. */

/** A value as DynamoDB has it: `{ S: "text" }`, `{ N: "7" }` and so on. */
export type AttributeValue = Readonly<Record<string, unknown>>;

/** An item, or the key of one. */
export type Item = Readonly<Record<string, AttributeValue>>;

/** A conditional write of one item, as `UpdateItem` takes it. */
export interface Update {
  readonly TableName: string;
  readonly Key: Item;
  readonly UpdateExpression: string;
  readonly ConditionExpression: string;
  readonly ExpressionAttributeNames: Readonly<Record<string, string>>;
  readonly ExpressionAttributeValues: Item;
}

/**
 * What came of a conditional write.
 *
 * - `done`: the item as it is now
 * - `refused`: the item as it was found; undefined when there is none
 * - `doubted`: the server said that something went wrong, and may have written all the same; the
 *   item as a look found it afterwards, and the failure
 */
export type Written =
  | { readonly done: Item }
  | { readonly refused: Item | undefined }
  | { readonly doubted: Item | undefined; readonly failure: Error };
