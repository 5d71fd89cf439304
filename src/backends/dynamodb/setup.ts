/** What must be true of a table before leases are kept in it. */
import { GuaranteeError, UnavailableError } from "../../core/errors.js";
import type { EventSink } from "../../core/events.js";
import type { Client, During, TableFacts } from "./client.js";
import { KEY, NAMES } from "./record.js";

const OWN: readonly string[] = [KEY, ...Object.values(NAMES), "storeId", "floor"];

/** What is known of a table once it was looked at. */
export interface Prepared {
  /** Whether other regions write it and the last writer wins. */
  readonly isEventual: boolean;
  /** Whether it is kept by Amazon's service, and not by a server of somebody's own. */
  readonly isService: boolean;
}

/**
 * Looks at the table; a caller who may not ask for its description goes on with a warning.
 *
 * @throws UnavailableError when it is missing, is being made or has other keys. GuaranteeError when
 *   the service deletes our items by time: tokens would begin again.
 */
export async function checkTableFacts(
  client: Client,
  table: string,
  events: EventSink,
  call: During,
): Promise<Prepared> {
  const warn = (message: string): void => {
    events.publish({ type: "warning", name: table, backend: "dynamodb", message });
  };
  const [facts, expiry, isService] = await Promise.all([
    client.describe(table, call),
    client.timeToLive(table, call),
    client.isService(),
  ]);
  if (facts === undefined) warn(`table ${table} could not be looked at: dynamodb:DescribeTable`);
  else checkKeys(facts, table, call);
  checkExpiry(expiry, table, warn);
  const isEventual = facts?.isEventual === true;
  if (isEventual) {
    warn(
      `table ${table} is a global table with eventual consistency: each region checks conditions ` +
        "for itself, so a name that is used from two regions has two holders",
    );
  }
  return { isEventual, isService };
}

function checkKeys({ status, keys }: TableFacts, table: string, { during }: During): void {
  if (!/^(ACTIVE|UPDATING)$/.test(status)) {
    throw unavailable(`cannot ${during}: table ${table} is ${status}`, true);
  }
  const [first, second] = keys;
  if (first?.name === KEY && first.type === "S" && second === undefined) return;
  const shown = keys.map(({ name, role, type = "?" }) => `${name} ${type} ${role}`).join(", ");
  throw unavailable(
    `cannot ${during}: table ${table} has the key (${shown}); leases need a table of their own ` +
      `with the one key (${KEY} S HASH): tenure migrate --print --backend dynamodb`,
    false,
  );
}

function checkExpiry(
  expiry: { readonly deletesBy: string | undefined } | undefined,
  table: string,
  warn: (message: string) => void,
): void {
  if (expiry === undefined) {
    warn(`whether table ${table} deletes items by time is not known: dynamodb:DescribeTimeToLive`);
  } else if (expiry.deletesBy !== undefined && OWN.includes(expiry.deletesBy)) {
    throw new GuaranteeError(
      `table ${table} deletes items by time, by the attribute ${expiry.deletesBy} of leases: ` +
        "their tokens would begin again; turn TTL off for this table",
      { backend: "dynamodb" },
    );
  } else if (expiry.deletesBy !== undefined) {
    warn(
      `table ${table} deletes items by time, by the attribute ${expiry.deletesBy}: leases have ` +
        "none and stay, but are better kept in a table without TTL",
    );
  }
}

function unavailable(text: string, retryable: boolean): UnavailableError {
  return new UnavailableError(text, { backend: "dynamodb", retryable });
}
