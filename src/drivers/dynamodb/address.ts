import { ArgumentTypeError } from "../../core/errors.js";

/** Where a table is. What is missing, the SDK finds as it always does. */
export interface DynamoAddress {
  readonly table: string;
  readonly region: string | undefined;
  readonly endpoint: string | undefined;
  /** For the wall clock, unchecked. */
  readonly maxSkew: string | undefined;
}

const MUST =
  "dynamodb://TABLE?region=eu-west-1, or dynamodb://REGION/TABLE, with endpoint=URL for a server " +
  "of one's own and maxSkew=5s for the wall clock; credentials are found as the AWS SDK finds " +
  "them, never in the URL";

/** A table from its URL. @throws TypeError that does not repeat the URL. */
export function parseAddress(url: unknown): DynamoAddress {
  const wrong = (): ArgumentTypeError => new ArgumentTypeError("url", "dynamodb:…", MUST);
  let parsed: URL;
  try {
    parsed = new URL(String(url));
  } catch {
    throw wrong();
  }
  const { protocol, username, password, port, hostname, pathname, searchParams, hash } = parsed;
  if (protocol !== "dynamodb:" || `${username}${password}${port}${hash}` !== "") throw wrong();
  const inPath = pathname.replace(/^\//, "");
  const [table, host] = inPath === "" ? [hostname, ""] : [inPath, hostname];
  const known = [...searchParams.keys()];
  if (known.some((name) => !/^(region|endpoint|maxSkew)$/.test(name))) throw wrong();
  const region = searchParams.get("region") ?? (host === "" ? undefined : host);
  const endpoint = searchParams.get("endpoint") ?? undefined;
  if (region !== undefined && !/^[a-z0-9-]+$/i.test(region)) throw wrong();
  if (endpoint !== undefined && !/^https?:\/\/[^/@]+\/?$/.test(endpoint)) throw wrong();
  const maxSkew = searchParams.get("maxSkew") ?? undefined;
  return { table: checkTable(table, "url"), region, endpoint, maxSkew };
}

/** @throws TypeError for what is no name of a table, nor the ARN of one. */
export function checkTable(table: unknown, option = "table"): string {
  const isName = typeof table === "string" && /^[A-Za-z0-9_.-]{3,255}$/.test(table);
  const isArn = typeof table === "string" && /^arn:[^\s]{1,1000}:table\/[^\s/]+$/.test(table);
  if (isName || isArn) return table;
  const must = "the name of a table: 3 to 255 of A-Z a-z 0-9 _ . - (or its ARN)";
  throw new ArgumentTypeError(option, table, must);
}
