import type { Duration } from "../../core/duration.js";
import { checkKnown, checkObject } from "../../core/options.js";
import { checkTable, parseAddress } from "../../drivers/dynamodb/address.js";
import type { DynamoSender } from "../../drivers/dynamodb/contract.js";
import { adoptDynamo, openDynamo } from "../../drivers/dynamodb/open.js";
import { machine } from "../../platform/machine.js";
import { platform } from "../../platform/index.js";
import { dynamodbBackend, type DynamodbBackend } from "./index.js";
import { checkSettings, type DynamodbBackendOptions, type DynamodbSettings } from "./options.js";

export type { AttributeValue, DynamoSender } from "../../drivers/dynamodb/contract.js";
export type { DynamodbBackend, DynamodbProof } from "./index.js";
export { tableDefinition, type TableForm, type TableOptions } from "./table.js";

/** Where the leases are kept: a client of one's own, and the table. */
export interface DynamodbTable extends DynamodbSettings {
  /** A `DynamoDBClient` of `@aws-sdk/client-dynamodb`. It stays the caller's to destroy. */
  readonly client: DynamoSender;
  /** Name or ARN of the table. */
  readonly table: string;
  /**
   * A second client for renewals, with connections of its own, for an application that keeps all of
   * `client`'s busy. Default: `client`.
   */
  readonly renewals?: DynamoSender;
  /** Clock, timers, randomness and events. Default: the machine's. */
  readonly runtime?: Runtime;
}

/** Settings beside a URL. */
export interface DynamodbUrlOptions extends DynamodbSettings {
  /** Clock, timers, randomness and events. Default: the machine's. */
  readonly runtime?: Runtime;
}

type Runtime = DynamodbBackendOptions["runtime"];

const SETTINGS = ["wallClock", "storeId", "runtime"] as const;

/**
 * A backend on a table of DynamoDB: `dynamodb({ client, table })`, or at a URL,
 * `dynamodb://TABLE?region=eu-west-1` or `dynamodb://REGION/TABLE`, with `endpoint=URL` for a
 * server of one's own, and `maxSkew=5s` for `wallClock`. Credentials are those that the AWS SDK
 * finds.
 *
 * The table must be there: see {@link tableDefinition}.
 *
 * @throws TypeError or RangeError for a wrong URL or wrong options. That
 *   `@aws-sdk/client-dynamodb` is missing, or the table, is told when the backend is opened.
 */
export function dynamodb(table: DynamodbTable): DynamodbBackend;
export function dynamodb(url: string, options?: DynamodbUrlOptions): DynamodbBackend;
export function dynamodb(
  where: string | DynamodbTable,
  options: DynamodbUrlOptions = {},
): DynamodbBackend {
  return typeof where === "string" ? atUrl(where, options) : around(where);
}

function atUrl(url: string, options: DynamodbUrlOptions): DynamodbBackend {
  checkKnown(options, SETTINGS);
  const { runtime = platform(), ...rest } = options;
  const address = parseAddress(url);
  const { maxSkew } = address;
  const own = maxSkew === undefined ? {} : { wallClock: { maxSkew: maxSkew as Duration } };
  const settings = { ...own, ...rest };
  checkSettings(settings);
  const [calls, renewals] = [openDynamo(address, runtime), openDynamo(address, runtime)];
  return dynamodbBackend({
    ...settings,
    client: calls.client,
    renewals: renewals.client,
    table: address.table,
    runtime,
    machine,
    close: () => {
      calls.close();
      renewals.close();
    },
  });
}

function around(given: DynamodbTable): DynamodbBackend {
  checkObject(given, "options");
  checkKnown(given, [...SETTINGS, "client", "table", "renewals"]);
  const { client, table, renewals, runtime = platform(), ...settings } = given;
  checkSettings(settings);
  return dynamodbBackend({
    ...settings,
    client: adoptDynamo(client, runtime),
    ...(renewals === undefined ? {} : { renewals: adoptDynamo(renewals, runtime, "renewals") }),
    table: checkTable(table),
    runtime,
    machine,
  });
}
