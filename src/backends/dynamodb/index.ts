/**
 * Leases in DynamoDB: items of one table that are written on conditions.
 *
 * - Atomicity: one `UpdateItem` with a condition per call.
 * - Token: a number in the name's item, one more with each grant; the item is never deleted.
 * - Expiry: each contender's own clock, from the moment it saw the item; no clocks are compared.
 * - Waiting: polling with growing pauses. Not fair.
 * - Failover: the service keeps an acknowledged write within its region. A global table with
 *   eventual consistency gives a name to one holder per region.
 */
import type { Backend, Call, Grant } from "../../core/backend.js";
import { UnavailableError } from "../../core/errors.js";
import type { Manifest } from "../../core/manifest.js";
import type { FencingToken } from "../../core/token.js";
import type { Item } from "../../dialects/dynamodb.js";
import { Leases } from "./leases.js";
import { checkSettings, type DynamodbBackendOptions } from "./options.js";
import { keyOf, NAMES } from "./record.js";
import { checkTableFacts, type Prepared } from "./setup.js";
import { Sightings } from "./sightings.js";
import { Store } from "./store.js";

/** A held check: a `ConditionCheck` of `TransactWriteItems`. */
export interface DynamodbProof {
  readonly TableName: string;
  readonly Key: Item;
  readonly ConditionExpression: string;
  readonly ExpressionAttributeNames: Readonly<Record<string, string>>;
  readonly ExpressionAttributeValues: Item;
}

/** A backend on DynamoDB, with its proof typed. */
export interface DynamodbBackend extends Backend {
  /**
   * What says in a transaction of the same region that the record still has this holder and token:
   * `{ ConditionCheck: backend.proof(grant) }`. Not tested: whether the time is over. A grant
   * passes until another contender has taken over.
   */
  proof(grant: Grant): DynamodbProof;
}

const RENEW_BATCH = 25;
const MIN_TTL_MS = 1_000;
const MAX_TTL_MS = 86_400_000;

interface State extends Prepared {
  readonly storeId: string;
  readonly leases: Leases;
}

/**
 * A backend on DynamoDB.
 *
 * Its manifest says `tokens: "consensus"`; `durable` for a server of one's own, and
 * `until-failover` for a global table with eventual consistency, once `open` has looked.
 *
 * @throws TypeError or RangeError for wrong options.
 */
export function dynamodbBackend(options: DynamodbBackendOptions): DynamodbBackend {
  const { maxSkewMs, storeId: givenId } = checkSettings(options);
  const { client, renewals = client, table, runtime, machine } = options;
  let state: State | undefined;
  let isClosed = false;

  const opened = (): State => {
    if (state !== undefined && !isClosed) return state;
    throw new UnavailableError(`the dynamodb backend is ${isClosed ? "closed" : "not open yet"}`, {
      backend: "dynamodb",
      retryable: false,
    });
  };

  const open = async ({ signal }: Call): Promise<State> => {
    const during = { signal, during: "open the store" };
    const { clock, timers, random, events } = runtime;
    const store = new Store(client, table, runtime);
    const prepared = await checkTableFacts(client, table, events, during);
    const storeId = await store.provideId(during);
    const sightings = new Sightings(await machine(), clock);
    const outside = { clock, timers, random, maxSkewMs };
    const leases = new Leases({ client, renewals, table, store, sightings, ...outside });
    return { ...prepared, storeId, leases };
  };

  return {
    get manifest(): Manifest<FencingToken> {
      return {
        backend: "dynamodb",
        tokens: strengthOf(state),
        expiryClock: "observed",
        deadline: "bound",
        waiting: "poll",
        fair: false,
        heldCheck: true,
        minTtlMs: MIN_TTL_MS,
        maxTtlMs: MAX_TTL_MS,
        ttlScope: "lease",
        renewBatch: RENEW_BATCH,
      };
    },
    get storeId() {
      return givenId ?? state?.storeId ?? opened().storeId;
    },
    async open(call) {
      if (isClosed) opened();
      state ??= await open(call);
    },
    acquire: async (request, call) => await opened().leases.acquire(request, call),
    renew: async (grants, call) => await opened().leases.renew(grants, call),
    release: async (requests, call) => await opened().leases.release(requests, call),
    break: async (name, token, call) => opened().leases.break(name, token, call),
    inspect: async (name, call) => opened().leases.inspect(name, call),
    list: (prefix, call) => opened().leases.list(prefix, call),
    waiting: { kind: "poll" },
    proof: ({ name, holder, token }) => ({
      TableName: table,
      Key: keyOf(name),
      ConditionExpression: "#holder = :holder AND #token = :token AND #free = :false",
      ExpressionAttributeNames: {
        "#holder": NAMES["#holder"],
        "#token": NAMES["#token"],
        "#free": NAMES["#free"],
      },
      ExpressionAttributeValues: {
        ":holder": { S: holder },
        ":token": { N: String(token) },
        ":false": { BOOL: false },
      },
    }),
    async close() {
      isClosed = true;
      options.close?.();
    },
  };
}

function strengthOf(state: State | undefined): Manifest<FencingToken>["tokens"] {
  if (state?.isEventual === true) return "until-failover";
  return state?.isService === false ? "durable" : "consensus";
}
