/**
 * The requests that Tenure makes of DynamoDB. Reads are consistent; what it throws are errors of
 * Tenure.
 */
import type { Timers } from "../../core/clock.js";
import { UnavailableError } from "../../core/errors.js";
import type { Random } from "../../core/random.js";
import { boundedBy } from "./aborting.js";
import type {
  DynamoSender,
  During,
  Item,
  Reason,
  TableFacts,
  Transacted,
  Update,
  Written,
} from "./contract.js";
import {
  cancellation,
  explainDynamo,
  failedCondition,
  isAnsweredDoubt,
  isConflict,
  isDenied,
  isUnknownOperation,
} from "./errors.js";

/** One request of the SDK. The stack is where its attempts can be seen. */
export interface Command {
  readonly middlewareStack?: {
    add(middleware: never, options: never): void;
  };
}

/** Makes requests of the SDK. */
export type Commands = Readonly<
  Record<
    | "UpdateItemCommand"
    | "GetItemCommand"
    | "ScanCommand"
    | "TransactWriteItemsCommand"
    | "DescribeTableCommand"
    | "DescribeTimeToLiveCommand",
    new (input: never) => Command
  >
>;

/** What a client is made of. The SDK is loaded by its first request. */
export interface DynamoParts {
  readonly sender: () => Promise<DynamoSender>;
  readonly commands: () => Promise<Commands>;
  readonly timers: Timers;
  readonly random: Random;
}

type Step = (args: unknown) => Promise<unknown>;
type Middleware = (next: Step) => Step;

/** Inside of what sends again, and outside of what reads the answer. */
const EACH_ATTEMPT = { step: "deserialize", priority: "high", name: "tenureAttempts" };

/** A write that meets a transaction on its item is sent again this often. */
const CONFLICT_TRIES = 5;
const CONFLICT_PAUSE_MS = 10;

/** A client of one region, and of all its tables. */
export class DynamoClient {
  readonly #parts: DynamoParts;
  #isToldItems = false;

  constructor(parts: DynamoParts) {
    this.#parts = parts;
  }

  /** Writes one item if its condition holds. */
  async update(update: Update, call: During): Promise<Written> {
    const input = {
      ...update,
      ReturnValues: "ALL_NEW",
      ReturnValuesOnConditionCheckFailure: "ALL_OLD",
    };
    const look = (): Promise<Item | undefined> => this.get(update.TableName, update.Key, call);
    for (let tries = 1; ; tries++) {
      const attempts: unknown[] = [];
      try {
        const { Attributes } = await this.#send("UpdateItemCommand", input, call, attempts);
        return { done: Attributes as Item };
      } catch (error) {
        const condition = failedCondition(error);
        if (condition !== false) return { refused: await this.#found(condition.item, look) };
        const failure = explainDynamo(attempts, { during: call.during, isRead: false });
        // Not where an attempt before may have been carried out: a new try knows nothing of it.
        const isAgain = isConflict(error) && failure instanceof UnavailableError;
        if (isAgain && tries < CONFLICT_TRIES && !call.signal.aborted) {
          await this.#pause(tries);
          continue;
        }
        if (!isAnsweredDoubt(attempts)) throw failure;
        // It was answered: what was written then, a look sees now.
        const item = await look().catch(() => {
          throw failure;
        });
        return { doubted: item, failure };
      }
    }
  }

  /** The item that a condition failed on. Older servers do not send it, so without one we look. */
  async #found(
    sent: unknown,
    look: () => Promise<Item | undefined>,
  ): Promise<Item | undefined> {
    if (sent !== undefined) this.#isToldItems = true;
    return sent === undefined && !this.#isToldItems ? await look() : (sent as Item | undefined);
  }

  /** One item as it is now. */
  async get(table: string, key: Item, call: During): Promise<Item | undefined> {
    const input = { TableName: table, Key: key, ConsistentRead: true };
    const { Item: item } = await this.#read("GetItemCommand", input, call);
    return item as Item | undefined;
  }

  /** All items that pass the filter: reads the whole table, page by page. */
  async *scan(filter: object, call: During): AsyncIterable<Item> {
    let from: unknown;
    do {
      const page = { ...filter, ConsistentRead: true };
      const input = from === undefined ? page : { ...page, ExclusiveStartKey: from };
      const { Items, LastEvaluatedKey } = await this.#read("ScanCommand", input, call);
      yield* (Items ?? []) as readonly Item[];
      from = LastEvaluatedKey;
    } while (from !== undefined);
  }

  /** All of these actions or none. Sent again by the SDK it is carried out once. */
  async transact(actions: readonly object[], call: During): Promise<Transacted> {
    for (let tries = 1; ; tries++) {
      const attempts: unknown[] = [];
      try {
        const input = { TransactItems: actions };
        await this.#send("TransactWriteItemsCommand", input, call, attempts);
        return { done: true };
      } catch (error) {
        const reasons = cancellation(error);
        if (reasons === false) {
          throw explainDynamo(attempts, { during: call.during, isRead: false });
        }
        const refused = reasons.map(toReason);
        const isBusy = refused.every(({ code }) => /^(None|TransactionConflict)$/.test(code));
        if (!isBusy || tries >= CONFLICT_TRIES || call.signal.aborted) return { refused };
        await this.#pause(tries);
      }
    }
  }

  /** Undefined where the caller may not ask. */
  async describe(table: string, call: During): Promise<TableFacts | undefined> {
    const answer = await this.#ask("DescribeTableCommand", { TableName: table }, call);
    return answer === undefined ? undefined : toFacts(answer["Table"]);
  }

  /** The attribute by which the service deletes items of the table; undefined where nobody says. */
  async timeToLive(
    table: string,
    call: During,
  ): Promise<{ readonly deletesBy: string | undefined } | undefined> {
    const answer = await this.#ask("DescribeTimeToLiveCommand", { TableName: table }, call);
    const told = answer?.["TimeToLiveDescription"] as
      { readonly TimeToLiveStatus?: string; readonly AttributeName?: string } | undefined;
    if (told === undefined) return undefined;
    const isOn = /^ENABL/.test(told.TimeToLiveStatus ?? "");
    return { deletesBy: isOn ? (told.AttributeName ?? "?") : undefined };
  }

  /** Whether the client leads to the service, and not to a server of somebody's own. */
  async isService(): Promise<boolean> {
    const { config } = await this.#parts.sender();
    const { endpoint } = (config ?? {}) as { readonly endpoint?: () => Promise<unknown> };
    if (typeof endpoint !== "function") return true;
    const { hostname } = ((await endpoint()) ?? {}) as { readonly hostname?: string };
    return hostname === undefined || /\.(amazonaws\.com(\.cn)?|api\.aws)$/.test(hostname);
  }

  /** An answer about the table; undefined where it may not be asked, or is not known. */
  async #ask(
    what: keyof Commands,
    input: object,
    call: During,
  ): Promise<Readonly<Record<string, unknown>> | undefined> {
    const attempts: unknown[] = [];
    try {
      return await this.#send(what, input, call, attempts);
    } catch (error) {
      if (isDenied(error) || isUnknownOperation(error)) return undefined;
      throw explainDynamo(attempts, { during: call.during, isRead: true });
    }
  }

  async #read(
    what: keyof Commands,
    input: object,
    call: During,
  ): Promise<Readonly<Record<string, unknown>>> {
    const attempts: unknown[] = [];
    try {
      return await this.#send(what, input, call, attempts);
    } catch {
      throw explainDynamo(attempts, { during: call.during, isRead: true });
    }
  }

  /** `attempts` gets what each failed attempt threw. */
  async #send(
    what: keyof Commands,
    input: object,
    { signal, timeoutMs }: During,
    attempts: unknown[],
  ): Promise<Readonly<Record<string, unknown>>> {
    const watch: Middleware = (next) => async (args) => {
      try {
        return await next(args);
      } catch (error) {
        attempts.push(error);
        throw error;
      }
    };
    const bounded = boundedBy(signal);
    const { timers } = this.#parts;
    const timer =
      timeoutMs === undefined ? undefined : timers.after(timeoutMs, () => bounded.end());
    try {
      const [sender, commands] = await Promise.all([this.#parts.sender(), this.#parts.commands()]);
      const command = new commands[what](input as never);
      command.middlewareStack?.add(watch as never, EACH_ATTEMPT as never);
      const answer = await sender.send(command as never, { abortSignal: bounded.signal });
      return answer as Readonly<Record<string, unknown>>;
    } catch (error) {
      // What is thrown outside of any attempt: no credentials, or the end of the waiting.
      if (attempts.at(-1) !== error) attempts.push(error);
      throw error;
    } finally {
      timer?.cancel();
      bounded.done();
    }
  }

  #pause(tries: number): Promise<void> {
    const { timers, random } = this.#parts;
    const ms = CONFLICT_PAUSE_MS * 2 ** tries * (0.5 + random.uniform());
    return new Promise((resolve) => timers.after(ms, resolve));
  }
}

function toReason(reason: unknown): Reason {
  const { Code, Message } = reason as { readonly Code?: string; readonly Message?: string };
  return { code: Code ?? "None", ...(Message === undefined ? {} : { message: Message }) };
}

function toFacts(table: unknown): TableFacts {
  const { TableStatus, KeySchema, AttributeDefinitions, Replicas, MultiRegionConsistency } =
    (table ?? {}) as {
      readonly TableStatus?: string;
      readonly KeySchema?: readonly { AttributeName: string; KeyType: string }[];
      readonly AttributeDefinitions?: readonly { AttributeName: string; AttributeType: string }[];
      readonly Replicas?: readonly unknown[];
      readonly MultiRegionConsistency?: string;
    };
  const typeOf = (name: string): string | undefined =>
    AttributeDefinitions?.find(({ AttributeName }) => AttributeName === name)?.AttributeType;
  return {
    status: TableStatus ?? "?",
    keys: (KeySchema ?? []).map(({ AttributeName, KeyType }) => ({
      name: AttributeName,
      role: KeyType,
      type: typeOf(AttributeName),
    })),
    isEventual: (Replicas?.length ?? 0) > 0 && MultiRegionConsistency !== "STRONG",
  };
}
