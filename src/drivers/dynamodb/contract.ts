/** What Tenure needs of a client of DynamoDB, and how its own wrapper answers. */

/** A value as DynamoDB has it: `{ S: "text" }`, `{ N: "7" }` and so on. */
export type AttributeValue = Readonly<Record<string, unknown>>;

/** An item, or the key of one. */
export type Item = Readonly<Record<string, AttributeValue>>;

/**
 * A client of `@aws-sdk/client-dynamodb`: a `DynamoDBClient`, or what has its `send` and `config`.
 *
 * Its own settings count: region, endpoint, credentials, retries, time-outs.
 */
export interface DynamoSender {
  send(command: never, options?: { readonly abortSignal?: AbortSignal }): Promise<unknown>;
  readonly config?: object;
  destroy?(): void;
}

/** What a request is bounded and told by. */
export interface During {
  readonly signal: AbortSignal;
  /** Longest that it may take; default: until the signal or the client's own settings end it. */
  readonly timeoutMs?: number;
  /** As it stands after "cannot". */
  readonly during: string;
}

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

/** Why one action of a transaction kept it from happening; `None` for those that did not. */
export interface Reason {
  readonly code: string;
  readonly message?: string;
}

/** What came of a transaction. */
export type Transacted = { readonly done: true } | { readonly refused: readonly Reason[] };

/** What the service tells of a table. */
export interface TableFacts {
  readonly status: string;
  /** Key attributes in order, with `HASH` or `RANGE` and the type `S`, `N` or `B`. */
  readonly keys: readonly {
    readonly name: string;
    readonly role: string;
    readonly type: string | undefined;
  }[];
  /** Whether other regions write it and the last writer wins (MREC). */
  readonly isEventual: boolean;
}
