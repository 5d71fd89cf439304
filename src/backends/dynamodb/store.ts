/**
 * What belongs to the table as a whole: its id, and a number below which no name may begin.
 *
 * A name's token is a number in its own record, which is never deleted by us. If a hand deletes it,
 * the next record of that name must begin above. So every name begins at the present time in
 * microseconds, and where a clock is behind, above all names that began before it, by a stride that
 * leaves room for the tokens that they have handed out since.
 */
import { UnavailableError } from "../../core/errors.js";
import type { Runtime } from "../../core/runtime.js";
import { KEY } from "./record.js";
import type { Client, During } from "./client.js";
import type { Item, Update } from "../../dialects/dynamodb.js";

const STORE_KEY: Item = { [KEY]: { S: "store" } };
const STRIDE = 1n << 20n;

/** The item of the store. */
export class Store {
  readonly #client: Client;
  readonly #table: string;
  readonly #runtime: Pick<Runtime, "clock" | "random">;

  constructor(client: Client, table: string, runtime: Pick<Runtime, "clock" | "random">) {
    this.#client = client;
    this.#table = table;
    this.#runtime = runtime;
  }

  /** The id of the store: the first client makes it, all others read it. */
  async provideId(call: During): Promise<string> {
    const found = await this.#client.get(this.#table, STORE_KEY, call);
    if (found !== undefined) return this.#readId(found, call);
    const written = await this.#update(
      "SET #id = :id, #floor = :now",
      `attribute_not_exists(${KEY})`,
      { ":id": { S: this.#runtime.random.id() }, ":now": { N: String(this.#nowMicros()) } },
      call,
    );
    return this.#readId(written.item, call);
  }

  /** Where a name begins that has no record: above all that began before it. */
  async nextSeed(call: During): Promise<bigint> {
    const now = this.#nowMicros();
    const times = { ":now": { N: String(now) } };
    const timely = await this.#update("SET #floor = :now", "#floor < :now", times, call);
    if (timely.isDone) return now;
    const floor = readFloor(timely.item);
    if (floor === undefined) throw this.#damaged(call);
    // The clock is behind, or another name began at the same time, perhaps this one before it was
    // deleted.
    const stride = { ":stride": { N: String(STRIDE) } };
    const raise = "SET #floor = #floor + :stride";
    const { item } = await this.#update(raise, "attribute_exists(#floor)", stride, call);
    const raised = readFloor(item);
    if (raised === undefined || raised <= floor) throw this.#damaged(call);
    return raised;
  }

  /** The item afterwards, whether it was written now or not. */
  async #update(
    expression: string,
    condition: string,
    values: Item,
    call: During,
  ): Promise<{ readonly item: Item | undefined; readonly isDone: boolean }> {
    const used = `${expression} ${condition}`;
    const names = { "#id": "storeId", "#floor": "floor" };
    const update: Update = {
      TableName: this.#table,
      Key: STORE_KEY,
      UpdateExpression: expression,
      ConditionExpression: condition,
      ExpressionAttributeNames: Object.fromEntries(
        Object.entries(names).filter(([name]) => used.includes(name)),
      ),
      ExpressionAttributeValues: values,
    };
    const written = await this.#client.update(update, call);
    // Nothing is granted yet: what was done here or not, nobody relies on it.
    if ("doubted" in written) throw unavailable(written.failure.message, true, written.failure);
    return "done" in written
      ? { item: written.done, isDone: true }
      : { item: written.refused, isDone: false };
  }

  #nowMicros(): bigint {
    return BigInt(Math.max(1, Math.floor(this.#runtime.clock.wallMs() * 1_000)));
  }

  #readId(item: Item | undefined, call: During): string {
    const { S: id } = (item?.["storeId"] ?? {}) as { readonly S?: unknown };
    if (typeof id === "string" && /^[A-Za-z0-9_-]{1,64}$/.test(id)) return id;
    throw this.#damaged(call);
  }

  #damaged({ during }: During): UnavailableError {
    const text =
      `cannot ${during}: the item "store" of table ${this.#table} is missing, or was not made by ` +
      "Tenure";
    return unavailable(text, false);
  }
}

function readFloor(item: Item | undefined): bigint | undefined {
  const { N: digits } = (item?.["floor"] ?? {}) as { readonly N?: unknown };
  return typeof digits === "string" && /^\d+$/.test(digits) ? BigInt(digits) : undefined;
}

function unavailable(text: string, retryable: boolean, cause?: unknown): UnavailableError {
  const context = { backend: "dynamodb", retryable };
  return new UnavailableError(text, cause === undefined ? context : { ...context, cause });
}
