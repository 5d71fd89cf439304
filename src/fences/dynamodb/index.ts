/**
 * Fence over items of DynamoDB: the mark is an attribute of the item that it guards, and every
 * write of the item is conditioned on it.
 *
 * A step with other items in it is one transaction. An attribute that the work has read with `get`
 * must still be as it was: if an unfenced path changed it meanwhile, nothing is written.
 *
 * Not promised: that code which writes the item without a handle is stopped. That a global table
 * with eventual consistency keeps a mark: each region checks conditions for itself. An item that is
 * deleted, by TTL say, takes its mark with it.
 */
import { ArgumentTypeError, UnavailableError } from "../../core/errors.js";
import { checkName } from "../../core/names.js";
import type { TokenBearer } from "../../core/token.js";
import { throwIfAborted } from "../bearer.js";
import type { Fence, FenceOptions, FenceRuntime, FenceStore, OnStale, Ran } from "../contract.js";
import { decide, rebase, type FenceRequest, type MarkRecord, type Verdict } from "../decide.js";
import { createFence } from "../fence.js";
import { recordFromJson, recordToJson } from "../record.js";
import type { Client, During } from "./client.js";
import type { Item, Update } from "../../dialects/dynamodb.js";
import { refusedAction, writeWhileHeld } from "./held.js";
import { Notebook, type DynamodbReader, type DynamodbTx, type TransactAction } from "./transaction.js";

/** Options of a DynamoDB fence. */
export interface DynamodbFenceOptions<S extends OnStale = "reject"> extends FenceOptions<S> {
  /** The table of the items to guard. */
  readonly table: string;
  /** Key of the item of a resource. Default: `{ pk: { S: resource } }`. */
  readonly key?: (resource: string) => Item;
  /** Attribute that carries the mark. Default `tenureMark`. */
  readonly attribute?: string;
  /** Table of the leases, for the held check. Default: as `table`. */
  readonly leaseTable?: string;
}

/** A fence over items of DynamoDB. */
export interface DynamodbFence<S extends OnStale = "reject"> extends Fence<
  DynamodbTx,
  DynamodbReader,
  S
> {
  /**
   * Held check: for a lease kept in the same region, one transaction says that the lease's record
   * still has this holder and token, and does all of `actions`, as `TransactWriteItems` takes them.
   * It needs no arming and no mark. A lease that is past its deadline passes until another
   * contender has taken over.
   *
   * Not promised: that items written under a mark are safe from it: use one or the other.
   *
   * @throws LeaseLostError when the record says otherwise; nothing was written.
   */
  held(bearer: TokenBearer, actions: readonly TransactAction[]): Promise<void>;
}

/** What a fence is made of. */
export interface DynamodbFenceParts {
  readonly client: Client;
  readonly runtime: FenceRuntime;
}

const BACKEND = "dynamodb";
const CALL_MS = 10_000;

/** @throws TypeError or RangeError for wrong options. */
export function createDynamodbFence<S extends OnStale = "reject">(
  { client, runtime }: DynamodbFenceParts,
  options: DynamodbFenceOptions<S>,
): DynamodbFence<S> {
  const { table, leaseTable = table } = options;
  const fence = createFence<DynamodbTx, DynamodbReader, S>(
    dynamodbStore(client, options, () => runtime.random.id()),
    runtime,
    options,
  );
  return {
    arm: (bearer, resource) => fence.arm(bearer, resource),
    armAll: (bearer, resources) => fence.armAll(bearer, resources),
    resource: (name) => fence.resource(name),
    mark: (resource) => fence.mark(resource),
    rebase: (resource, to) => fence.rebase(resource, to),
    held: (bearer, actions) =>
      writeWhileHeld(client, leaseTable, bearer, actions, bounded("write while held")),
  };
}

interface Seen {
  readonly record: MarkRecord | null;
  /** The mark as it stands in the item. */
  readonly text: string | undefined;
  readonly item: Item;
}

/** The store alone, for those who put something between a handle and it. */
export function dynamodbStore(
  client: Client,
  options: Pick<DynamodbFenceOptions<OnStale>, "table" | "key" | "attribute">,
  newId: () => string,
): FenceStore<DynamodbTx, DynamodbReader> {
  const { table, key: given = (resource) => ({ pk: { S: resource } }) } = options;
  const attribute = checkName(options.attribute ?? "tenureMark", "attribute");
  const keyOf = (resource: string): Item => checkKey(given(resource));

  async function look(resource: string, call: During): Promise<Seen> {
    const item = await client.get(table, keyOf(resource), call);
    return toSeen(item, call);
  }

  function toSeen(item: Item | undefined, { during }: During): Seen {
    const { [attribute]: mark, ...rest } = item ?? {};
    if (mark === undefined) return { record: null, text: undefined, item: rest };
    try {
      const text = mark["S"] as string;
      return { record: recordFromJson(JSON.parse(text)), text, item: rest };
    } catch (error) {
      const what = `cannot ${during}: attribute ${attribute} holds something that is no mark`;
      throw new UnavailableError(what, { backend: BACKEND, retryable: false, cause: error });
    }
  }

  /** The mark as `record` has it, on the condition that it is still as it was seen. */
  function raise(resource: string, mark: string, { text }: Seen, work?: Notebook): Update {
    const { update, condition, names, values } = work?.expression ?? NO_WORK;
    const isSame = text === undefined ? "attribute_not_exists(#mark)" : "#mark = :seen";
    return {
      TableName: table,
      Key: keyOf(resource),
      UpdateExpression: `SET #mark = :mark${update}`,
      ConditionExpression: `${isSame}${condition}`,
      ExpressionAttributeNames: { "#mark": attribute, ...names },
      ExpressionAttributeValues: {
        ":mark": { S: mark },
        ...(text === undefined ? {} : { ":seen": { S: text } }),
        ...values,
      },
    };
  }

  /** Sends a step; answers what stands there instead when the mark was another one. */
  async function commit(
    resource: string,
    record: MarkRecord,
    seen: Seen,
    call: During,
    work?: Notebook,
  ): Promise<"done" | Seen> {
    // Unlike any other writing of the same mark, so that a copy that fails on it knows its own.
    const mark = JSON.stringify({ ...recordToJson(record), by: newId() });
    const update = raise(resource, mark, seen, work);
    if (work === undefined || work.actions.length === 0) {
      const written = await client.update(update, call);
      if ("done" in written) return "done";
      const now = toSeen("refused" in written ? written.refused : written.doubted, call);
      if (now.text === mark) return "done";
      if ("refused" in written) return now;
      const { failure } = written;
      throw new UnavailableError(failure.message, { backend: BACKEND, cause: failure });
    }
    const answer = await client.transact([{ Update: update }, ...work.actions], call);
    if ("done" in answer) return "done";
    if (answer.refused[0]?.code !== "ConditionalCheckFailed") {
      throw refusedAction(answer.refused, call);
    }
    const now = await look(resource, call);
    return now.text === mark ? "done" : now;
  }

  return {
    kind: BACKEND,
    work: "async",
    load: async (resource) => (await look(resource, bounded(`look at ${quote(resource)}`))).record,
    arm: async (request, call) => {
      const during = doing(request);
      let seen = await look(request.resource, during);
      for (;;) {
        throwIfAborted(call);
        const verdict = decide(seen.record, request);
        if (!verdict.accepted) return verdict;
        const answer = await commit(request.resource, verdict.record, seen, during);
        if (answer === "done") return verdict;
        seen = answer;
      }
    },
    read: async (request, work, call) => {
      throwIfAborted(call);
      const seen = await look(request.resource, doing(request));
      const verdict = decide(seen.record, request);
      if (!verdict.accepted) return verdict;
      const { item } = seen;
      return { accepted: true, result: await work({ item, get: (name) => item[name] }) };
    },
    write: async (request, work, call): Promise<Ran<Awaited<ReturnType<typeof work>>>> => {
      throwIfAborted(call);
      const during = doing(request);
      const seen = await look(request.resource, during);
      const verdict = decide(seen.record, request);
      if (!verdict.accepted) return verdict;
      const own = [attribute, ...Object.keys(keyOf(request.resource))];
      const notebook = new Notebook(seen.item, own);
      try {
        const result = await work(notebook.tx);
        notebook.end();
        throwIfAborted(call);
        const answer = await commit(request.resource, verdict.record, seen, during, notebook);
        return answer === "done" ? { accepted: true, result } : refusedNow(answer, request, during);
      } finally {
        notebook.end();
      }
    },
    rebase: async (request) => {
      const during = bounded(`rebase ${quote(request.resource)}`);
      for (;;) {
        const seen = await look(request.resource, during);
        const after = rebase(seen.record, request);
        if (after === seen.record) return { before: seen.record, after };
        const answer = await commit(request.resource, after, seen, during);
        if (answer === "done") return { before: seen.record, after };
      }
    },
  };
}

const NO_WORK = { update: "", condition: "", names: {}, values: {} };

/** Either the mark refuses now, or something that the work had read has changed under it. */
function refusedNow(
  now: Seen,
  request: FenceRequest,
  { during }: During,
): Extract<Verdict, { readonly accepted: false }> {
  const verdict = decide(now.record, request);
  if (!verdict.accepted) return verdict;
  const text = `cannot ${during}: an attribute has changed since the work read it`;
  throw new UnavailableError(text, { backend: BACKEND });
}

function checkKey(key: unknown): Item {
  const parts = typeof key === "object" && key !== null ? Object.keys(key).length : 0;
  if (parts === 1 || parts === 2) return key as Item;
  const must = 'a key of the table, such as { pk: { S: "accounts/7" } }';
  throw new ArgumentTypeError("key", key, must);
}

function doing({ op, resource }: FenceRequest): During {
  return bounded(`${op} ${quote(resource)}`);
}

/** A step is not taken back by an abort: only its answer would be lost. */
function bounded(during: string): During {
  return { signal: new AbortController().signal, timeoutMs: CALL_MS, during };
}

function quote(text: string): string {
  return JSON.stringify(text);
}
