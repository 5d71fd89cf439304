/** From a store URL, or a backend, to a tenure. Client libraries are loaded only when used. */
import type { Backend } from "./core/backend.js";
import { callTimeoutMs } from "./core/call.js";
import { ArgumentTypeError } from "./core/errors.js";
import { checkBackend, checkDemands, checkTokens } from "./core/guarantee.js";
import type { Purpose } from "./core/guarantee.js";
import { checkName } from "./core/names.js";
import { checkKnown, mergeInfo } from "./core/options.js";
import type { Runtime } from "./core/runtime.js";
import { closedFor, taking } from "./core/taken.js";
import { Tenure } from "./core/tenure.js";
import type { TenureOptions } from "./core/tenure-options.js";
import type { FencingToken } from "./core/token.js";
import { platform } from "./platform/index.js";
import { splitStoreUrl, type Scheme } from "./store-url.js";

/** Options of `connect`. */
export interface ConnectOptions extends TenureOptions {
  /**
   * Id of the store, where two stores are to count as one for the fences. Default: the id kept in
   * the store itself. With a URL only; a backend brings its own.
   */
  readonly storeId?: string;
  /**
   * Whether a store that notices the end of this process may end its leases at once. Default true.
   * False where the work goes on without it, in a child process say: then only the TTL ends them.
   */
  readonly endWithProcess?: boolean;
  /** Clocks, timers, randomness and events to use instead of the machine's: for simulations. */
  readonly runtime?: Runtime;
}

const CONNECT_OPTIONS: readonly string[] = [
  ...["purpose", "require", "timeout", "holderInfo", "storeId", "endWithProcess", "runtime"],
];

interface OpenOptions {
  readonly runtime: Runtime;
  readonly storeId?: string;
}
type Leaving = { readonly endWithProcess?: boolean };
type Opener = (
  url: { readonly whole: string; readonly rest: string },
  options: OpenOptions,
  leaving: Leaving,
) => Promise<Backend<FencingToken | undefined>>;

const redis: Opener = async ({ whole }, options) =>
  (await import("./backends/redis/open.js")).redis(whole, options);
const postgres: Opener = async ({ whole }, options) =>
  (await import("./backends/postgres/open.js")).postgres(whole, options);
const mysql: Opener = async ({ whole }, options) =>
  (await import("./backends/mysql/open.js")).mysql(whole, options);
const etcd: Opener = async ({ whole }, options) =>
  (await import("./backends/etcd/open.js")).etcd(whole, options);

const consul: Opener = async ({ whole }, options) =>
  (await import("./backends/consul/open.js")).consul(whole, options);

const dynamodb: Opener = async ({ whole }, options) =>
  (await import("./backends/dynamodb/open.js")).dynamodb(whole, options);

const STORE_OPTIONS =
  "; those of a store go to its function, such as await postgres(url, { schema }) of " +
  '"tenure/backends/postgres", and connect takes what that gives';

const OPENERS: Readonly<Record<Scheme, Opener>> = {
  memory: async ({ whole, rest }, options) => {
    if (rest !== "") throw new ArgumentTypeError("url", whole, '"memory:" and no more');
    return (await import("./backends/memory/open.js")).memory(options);
  },
  sqlite: async ({ whole, rest }, options, leaving) => {
    // With two slashes a host is meant elsewhere; here the file would lie in the root folder.
    if (rest === "" || /^\/\/[^/]/.test(rest)) {
      const must = '"sqlite:" and a path, such as sqlite:./locks.db or sqlite:/var/lib/locks.db';
      throw new ArgumentTypeError("url", whole, must);
    }
    return (await import("./backends/sqlite/open.js")).sqlite(rest, { ...options, ...leaving });
  },
  redis,
  rediss: redis,
  redlock: async ({ rest }, options) => {
    const { redlock, splitUrls } = await import("./backends/redlock/open.js");
    return redlock(splitUrls(rest), options);
  },
  postgres,
  postgresql: postgres,
  "postgres+advisory": async ({ rest }, { storeId }) => {
    const { postgresAdvisory } = await import("./backends/postgres-advisory/open.js");
    return postgresAdvisory(`postgres:${rest}`, storeId === undefined ? {} : { storeId });
  },
  mysql,
  mariadb: mysql,
  consul,
  consuls: consul,
  dynamodb,
  etcd,
  etcds: etcd,
  zookeeper: async ({ whole }, options) =>
    (await import("./backends/zookeeper/open.js")).zookeeper(whole, options),
};

/**
 * A tenure over a store: the way in.
 *
 * URLs: `memory:` (one process), `sqlite:PATH` (the processes of one machine), `redis://` and, with
 * TLS, `rediss://`, `redlock:redis://a,redis://b,redis://c` (efficiency only), `postgres://` and, with
 * session locks instead of rows, `postgres+advisory://`, `mysql://` or `mariadb://`,
 * `etcd://host1,host2,host3` and, with TLS, `etcds://`, `consul://host:8500/prefix` and, with TLS,
 * `consuls://`, `zookeeper://h1,h2,h3/chroot`, `dynamodb://TABLE?region=eu-west-1`.
 *
 * The purpose is `correctness` unless said otherwise: a store without fencing tokens is refused.
 * With `efficiency` such a store is accepted and `lease.token` may be undefined, which no fence
 * takes.
 *
 * A backend that is refused, or given with a wrong option, is closed, unless another tenure serves
 * it; one whose store was not ready may be given again.
 *
 * @throws TypeError for an unknown URL or option. GuaranteeError when the store promises less than
 *   is asked for. UnavailableError when it cannot be opened, or its client library is missing.
 */
export async function connect(
  url: string,
  options?: ConnectOptions & { readonly purpose?: "correctness" },
): Promise<Tenure<FencingToken>>;
export async function connect(
  url: string,
  options: ConnectOptions & { readonly purpose: "efficiency" },
): Promise<Tenure<FencingToken | undefined>>;
export async function connect(
  url: string,
  options: ConnectOptions & { readonly purpose: Purpose },
): Promise<Tenure<FencingToken | undefined>>;
export async function connect(
  backend: Backend<FencingToken>,
  options?: Omit<ConnectOptions, "storeId">,
): Promise<Tenure<FencingToken>>;
export async function connect(
  backend: Backend<undefined>,
  options: Omit<ConnectOptions, "storeId"> & { readonly purpose: "efficiency" },
): Promise<Tenure<undefined>>;
export async function connect(
  store: string | Backend<FencingToken> | Backend<undefined>,
  options: ConnectOptions = {},
): Promise<Tenure<FencingToken> | Tenure<undefined> | Tenure<FencingToken | undefined>> {
  if (typeof store !== "string") {
    checkNoClient(store);
    checkBackend(store);
    return taking(store, async () => {
      checkKnown(options, CONNECT_OPTIONS, STORE_OPTIONS);
      return await Tenure.open(store, options.runtime ?? platform(), options);
    });
  }
  checkKnown(options, CONNECT_OPTIONS, STORE_OPTIONS);
  const runtime = options.runtime ?? platform();
  // Before anything is opened, or made.
  const demands = checkDemands(options.purpose, options.require);
  // Opening a file makes it: one that is to be refused must not be left behind.
  if (/^sqlite:./.test(store)) checkTokens("sqlite", "durable", demands);
  callTimeoutMs(options.timeout);
  mergeInfo(options.holderInfo, runtime.holderInfo);
  const backend = await openUrl(store, runtime, options);
  try {
    return await Tenure.open(backend, runtime, options);
  } catch (error) {
    return await closedFor(error, backend);
  }
}

/**
 * Tells a client of the caller's how it becomes a backend: patterns and fences take it as it is, so
 * it is given here as well.
 */
function checkNoClient(store: object): void {
  const isObject = typeof store === "object" && store !== null;
  if (typeof store !== "function" && (!isObject || "manifest" in store || "then" in store)) return;
  const must =
    'a store URL or a backend; a client gives one: await postgres(client) of ' +
    '"tenure/backends/postgres", redis(client) of "tenure/backends/redis", and so for each store';
  throw new ArgumentTypeError("backend", store, must);
}

async function openUrl(
  url: string,
  runtime: Runtime,
  { storeId, endWithProcess }: ConnectOptions,
): Promise<Backend<FencingToken | undefined>> {
  const { scheme, rest } = splitStoreUrl(url);
  return OPENERS[scheme](
    { whole: `${scheme}:${rest}`, rest },
    { runtime, ...(storeId === undefined ? {} : { storeId: checkName(storeId, "storeId") }) },
    endWithProcess === undefined ? {} : { endWithProcess },
  );
}
