/**
 * The part of the Postgres client libraries that Tenure uses, recognised by its shape: `pg` (pool
 * and client) and `postgres` (the function that its module makes).
 */
import { ArgumentTypeError } from "../../core/errors.js";

/** The structural subset of a client of `pg`. */
export interface PgClient {
  connect(): Promise<unknown>;
  query(config: string): Promise<unknown>;
  end(): Promise<void>;
}

/** The structural subset of a pool of `pg`. */
export interface PgPool {
  readonly totalCount: number;
  connect(): Promise<unknown>;
  query(config: string): Promise<unknown>;
  end(): Promise<void>;
}

/** The structural subset of an instance of `postgres`. */
export interface PostgresSql {
  readonly options: object;
  unsafe(text: string): PromiseLike<unknown>;
  reserve(): Promise<unknown>;
  end(options?: { timeout?: number }): Promise<void>;
}

/** A client object as a caller hands it over. */
export type PostgresClient = PgPool | PgClient | PostgresSql;

/** A client, told apart by its library and kind. */
export type KnownPostgres =
  | { readonly kind: "pg-pool"; readonly client: PgPool }
  | { readonly kind: "pg-client"; readonly client: PgClient }
  | { readonly kind: "postgres"; readonly client: PostgresSql };

/**
 * Which library and kind a client object is of.
 *
 * @throws TypeError for anything else.
 */
export function knownPostgres(client: unknown, option = "client"): KnownPostgres {
  if (typeof client === "function" && has(client, ["unsafe", "reserve", "end"])) {
    return { kind: "postgres", client: client as unknown as PostgresSql };
  }
  if (typeof client === "object" && has(client, ["query", "connect", "end"])) {
    return "totalCount" in client!
      ? { kind: "pg-pool", client: client as PgPool }
      : { kind: "pg-client", client: client as PgClient };
  }
  throw new ArgumentTypeError(option, client, "a pool of pg, or an instance of postgres");
}

function has(value: unknown, methods: readonly string[]): boolean {
  if (value === null) return false;
  return methods.every((name) => typeof (value as Record<string, unknown>)[name] === "function");
}
