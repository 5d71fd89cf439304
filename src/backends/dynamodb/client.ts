/** The part of `drivers/dynamodb` that the backend uses; a test may pass its own. */
import type { Call } from "../../core/backend.js";
import type { Item, Update, Written } from "../../dialects/dynamodb.js";

/** What a request is bounded and told by. */
export interface During extends Pick<Call, "signal"> {
  /** As it stands after "cannot". */
  readonly during: string;
}

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

/** A client of DynamoDB: what it throws are errors of Tenure. Reads are consistent. */
export interface Client {
  update(update: Update, call: During): Promise<Written>;
  get(table: string, key: Item, call: During): Promise<Item | undefined>;
  scan(filter: object, call: During): AsyncIterable<Item>;
  describe(table: string, call: During): Promise<TableFacts | undefined>;
  timeToLive(
    table: string,
    call: During,
  ): Promise<{ readonly deletesBy: string | undefined } | undefined>;
  isService(): Promise<boolean>;
}

/** What the processes of one boot of a machine share. */
export interface Machine {
  /** Changes with every boot; undefined where the platform does not tell. */
  readonly bootId: string | undefined;
  /** Two processes with the same id read the same `nowMs`. */
  readonly clockId: string;
  /** Monotonic milliseconds since an origin that all processes of one boot share. */
  nowMs(): number;
}
