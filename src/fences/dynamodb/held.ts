/** The held check: a transaction that also says that the lease's record has this token. */
import { ArgumentRangeError, LeaseLostError, UnavailableError } from "../../core/errors.js";
import type { TokenBearer } from "../../core/token.js";
import { checkBearer, throwIfAborted } from "../bearer.js";
import type { Client, During } from "./client.js";
import type { TransactAction } from "./transaction.js";

/** A transaction takes 100 actions; one is the check. */
const MOST_ACTIONS = 99;

/**
 * Writes all of the actions, or none, on the condition that the record of the lease still has this
 * holder and token.
 *
 * @throws LeaseLostError when it has not.
 */
export async function writeWhileHeld(
  client: Client,
  leaseTable: string,
  bearer: TokenBearer,
  actions: readonly TransactAction[],
  during: During,
): Promise<void> {
  const armer = checkBearer(bearer);
  const count = Array.isArray(actions) ? actions.length : 0;
  if (count === 0 || count > MOST_ACTIONS) {
    throw new ArgumentRangeError("actions", count, `a list of 1 to ${MOST_ACTIONS}`);
  }
  throwIfAborted(armer);
  const { name } = armer.scope;
  const check = {
    ConditionCheck: {
      TableName: leaseTable,
      Key: { pk: { S: `lease:${name}` } },
      ConditionExpression: "#holder = :holder AND #token = :token AND #free = :false",
      ExpressionAttributeNames: { "#holder": "holder", "#token": "token", "#free": "isFree" },
      ExpressionAttributeValues: {
        ":holder": { S: armer.holder },
        ":token": { N: String(armer.token) },
        ":false": { BOOL: false },
      },
    },
  };
  const answer = await client.transact([check, ...actions], during);
  if ("done" in answer) return;
  if (answer.refused[0]?.code === "ConditionalCheckFailed") {
    throw new LeaseLostError(`the store no longer has token ${armer.token} of this holder`, {
      reason: "absent",
      lock: name,
      backend: "dynamodb",
    });
  }
  throw refusedAction(answer.refused, during);
}

/** What kept a transaction from happening, where it was none of the fence's own conditions. */
export function refusedAction(
  reasons: readonly { readonly code: string; readonly message?: string }[],
  { during }: During,
): UnavailableError {
  const place = reasons.findIndex(({ code }) => code !== "None");
  const { code = "no reason given", message } = reasons[place] ?? {};
  const what = message === undefined ? code : `${code}: ${message}`;
  const text = `cannot ${during}: action ${place} of the transaction was refused: ${what}`;
  const retryable = /^(TransactionConflict|ThrottlingError|ProvisionedThroughput)/.test(code);
  return new UnavailableError(text, { backend: "dynamodb", retryable });
}
