/** URLs of stores: what `connect` takes, and the command but for what lives in one process. */
import { ArgumentTypeError } from "./core/errors.js";

/** Schemes of stores that no other process reaches. */
const WITHIN_ONE_PROCESS: readonly Scheme[] = ["memory"];

/** Scheme of a store's URL. */
export type Scheme =
  | "memory" | "sqlite" | "redis" | "rediss" | "redlock" | "postgres" | "postgresql"
  | "postgres+advisory" | "mysql" | "mariadb" | "consul" | "consuls" | "dynamodb" | "etcd"
  | "etcds" | "zookeeper";

/** All schemes, in the order in which they are told. */
const SCHEMES: readonly Scheme[] = [
  ...["memory", "sqlite", "redis", "rediss", "redlock", "postgres", "postgresql"] as const,
  ...["postgres+advisory", "mysql", "mariadb", "consul", "consuls", "dynamodb"] as const,
  ...["etcd", "etcds", "zookeeper"] as const,
];

/** A store's URL, in parts. */
export interface StoreUrl {
  readonly scheme: Scheme;
  readonly rest: string;
}

/**
 * A store's URL, with its scheme in small letters: as in every URL it may be in letters of either
 * case.
 *
 * @param between who is to be kept apart by what is in the store
 * @throws TypeError for another URL, with the stores that there are.
 */
export function splitStoreUrl(url: string, between: "tasks" | "processes" = "tasks"): StoreUrl {
  const colon = url.indexOf(":");
  const scheme = url.slice(0, Math.max(0, colon)).toLowerCase();
  const isLocal = (one: Scheme): boolean => WITHIN_ONE_PROCESS.includes(one);
  const taken = between === "tasks" ? SCHEMES : SCHEMES.filter((one) => !isLocal(one));
  const known = taken.find((one) => one === scheme);
  if (known !== undefined) return { scheme: known, rest: url.slice(colon + 1) };
  // A URL may carry a password: only its scheme is repeated.
  const shown = colon > 0 ? `${scheme}:…` : url;
  const file = colon > 0 ? "" : "; a file is sqlite: and its path";
  const told = taken.map((one) => (isLocal(one) ? `${one}: within one process,` : `${one}:`));
  throw new ArgumentTypeError("url", shown, `a store URL (${told.join(" ")})${file}`);
}
