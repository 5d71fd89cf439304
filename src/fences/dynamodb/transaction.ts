/**
 * One step of the fence as its work sees it. The item was read once, in one step with its mark.
 * What the work writes is noted, and sent with the check of the mark once it has ended; an
 * attribute that it has read must still be as it was.
 */
import { ArgumentRangeError, ArgumentTypeError } from "../../core/errors.js";
import type { AttributeValue, Item } from "../../dialects/dynamodb.js";

/** What the work of a read is given. */
export interface DynamodbReader {
  /** The attributes of the item, with its key and without the mark. */
  readonly item: Item;
  /** One attribute of the item: `{ S: "text" }`, `{ N: "7" }` and so on. */
  get(attribute: string): AttributeValue | undefined;
}

/** One more action of the transaction, as `TransactWriteItems` takes it. */
export type TransactAction = Readonly<
  Partial<Record<"Put" | "Update" | "Delete" | "ConditionCheck", object>>
>;

/** What the work of a write is given. */
export interface DynamodbTx extends DynamodbReader {
  /**
   * As for a reader; a write is applied only if the attribute is still the same. What is read from
   * `item` is not looked at again.
   */
  get(attribute: string): AttributeValue | undefined;
  /** Notes a value for an attribute of the item. The last one for an attribute counts. */
  set(attribute: string, value: AttributeValue): void;
  /** Notes a number to add to an attribute of the item, in the store; a missing one counts as 0. */
  add(attribute: string, amount: number | bigint): void;
  /** Notes the removal of an attribute. The item itself stays: it carries the mark. */
  remove(attribute: string): void;
  /**
   * Notes a write, or a check, of another item, also in another table: all of it or nothing, at
   * most 99. It makes the step a `TransactWriteItems`, which costs twice as much.
   */
  also(action: TransactAction): void;
}

type Write =
  | { readonly kind: "set"; readonly value: AttributeValue }
  | { readonly kind: "add"; readonly amount: number | bigint }
  | { readonly kind: "remove" };

/** A transaction takes 100 actions; one is the item's own. */
const MOST_ACTIONS = 99;

/** An expression for `UpdateItem`, in parts. */
export interface Expression {
  readonly update: string;
  readonly condition: string;
  readonly names: Readonly<Record<string, string>>;
  readonly values: Item;
}

/** Notes what the work of one step does. */
export class Notebook {
  readonly tx: DynamodbTx;
  readonly actions: TransactAction[] = [];
  readonly #item: Item;
  readonly #own: readonly string[];
  readonly #reads = new Set<string>();
  readonly #writes = new Map<string, Write>();
  #hasEnded = false;

  /** `own`: attributes that the work must leave alone. */
  constructor(item: Item, own: readonly string[]) {
    this.#item = item;
    this.#own = own;
    this.tx = {
      item,
      get: (attribute) => {
        this.#checkOpen();
        this.#reads.add(checkAttribute(attribute));
        return this.#item[attribute];
      },
      set: (attribute, value) => {
        this.#write(attribute, { kind: "set", value: checkValue(value) });
      },
      add: (attribute, amount) => {
        this.#write(attribute, { kind: "add", amount: checkAmount(amount) });
      },
      remove: (attribute) => this.#write(attribute, { kind: "remove" }),
      also: (action) => this.#also(action),
    };
  }

  /** Nothing can be added any more. */
  end(): void {
    this.#hasEnded = true;
  }

  /** What must still be as it was read, and what is to be written. */
  get expression(): Expression {
    const names: Record<string, string> = {};
    const values: Record<string, AttributeValue> = {};
    const set: string[] = [];
    const remove: string[] = [];
    const conditions: string[] = [];
    const nameOf = (attribute: string): string => {
      const known = Object.keys(names).find((key) => names[key] === attribute);
      const name = known ?? `#a${Object.keys(names).length}`;
      names[name] = attribute;
      return name;
    };
    const valueOf = (value: AttributeValue): string => {
      const name = `:a${Object.keys(values).length}`;
      values[name] = value;
      return name;
    };
    for (const attribute of this.#reads) {
      const value = this.#item[attribute];
      const name = nameOf(attribute);
      const isSame = value === undefined ? undefined : `${name} = ${valueOf(value)}`;
      conditions.push(isSame ?? `attribute_not_exists(${name})`);
    }
    for (const [attribute, write] of this.#writes) {
      const name = nameOf(attribute);
      if (write.kind === "remove") remove.push(name);
      else if (write.kind === "set") set.push(`${name} = ${valueOf(write.value)}`);
      else {
        const [zero, amount] = [valueOf({ N: "0" }), valueOf({ N: String(write.amount) })];
        set.push(`${name} = if_not_exists(${name}, ${zero}) + ${amount}`);
      }
    }
    const removal = remove.length === 0 ? "" : ` REMOVE ${remove.join(", ")}`;
    return {
      update: `${set.map((part) => `, ${part}`).join("")}${removal}`,
      condition: conditions.map((part) => ` AND ${part}`).join(""),
      names,
      values,
    };
  }

  #write(attribute: string, write: Write): void {
    this.#checkOpen();
    checkAttribute(attribute);
    if (this.#own.includes(attribute)) {
      throw new ArgumentTypeError("attribute", attribute, "neither of the key nor the mark");
    }
    this.#writes.set(attribute, write);
  }

  #also(action: TransactAction): void {
    this.#checkOpen();
    const given: unknown = action;
    const keys = typeof given === "object" && given !== null ? Object.keys(given) : [];
    if (keys.length !== 1 || !/^(Put|Update|Delete|ConditionCheck)$/.test(keys[0]!)) {
      const must = "{ Put }, { Update }, { Delete } or { ConditionCheck }";
      throw new ArgumentTypeError("action", given, must);
    }
    if (this.actions.length === MOST_ACTIONS) {
      throw new ArgumentRangeError("work", MOST_ACTIONS + 1, `at most ${MOST_ACTIONS} other items`);
    }
    this.actions.push(action);
  }

  #checkOpen(): void {
    if (this.#hasEnded) throw new TypeError("this read or write has ended");
  }
}

function checkAttribute(attribute: unknown): string {
  if (typeof attribute === "string" && attribute !== "") return attribute;
  throw new ArgumentTypeError("attribute", attribute, "the name of an attribute");
}

function checkValue(value: unknown): AttributeValue {
  if (typeof value === "object" && value !== null && Object.keys(value).length === 1) {
    return value as AttributeValue;
  }
  throw new ArgumentTypeError("value", value, 'a value such as { S: "text" } or { N: "7" }');
}

function checkAmount(amount: unknown): number | bigint {
  if (typeof amount === "bigint" || Number.isFinite(amount)) return amount as number | bigint;
  throw new ArgumentTypeError("amount", amount, "a finite number or a bigint");
}
