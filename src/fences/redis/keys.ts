/**
 * Where the mark of a resource is kept.
 *
 * In a cluster it must be in the slot of the data, so its key has the hash tag that decides the
 * slot of a key named like the resource: the tag within the name (`{user:7}:cart` has `user:7`), or
 * else the whole name. A resource named like its data's key needs nothing more. Names that no tag
 * can repeat (`a}b`) are escaped; their data goes under `dataKey`.
 */

/** Default beginning of the keys of a fence. */
export const DEFAULT_PREFIX = "tenure:fence:";

/** The hash with the mark. */
export function markKey(prefix: string, resource: string): string {
  const tag = tagOf(resource);
  if (tag !== undefined) return `${prefix}{${tag}}:t:${resource}`;
  if (!/[{}]/.test(resource)) return `${prefix}{${resource}}`;
  const escaped = resource.replaceAll("%", "%25").replaceAll("}", "%7D");
  return `${prefix}{${escaped}}:e`;
}

/** What is left of a mark that was lost: see `scripts.ts`. */
export function lowKey(mark: string): string {
  return `${mark}:low`;
}

/** A key for data of the resource, in the slot of its mark. */
export function dataKey(mark: string, suffix: string): string {
  return `${mark}:v:${suffix}`;
}

/** Between the first `{` and the first `}` after it, unless there is nothing between. */
function tagOf(name: string): string | undefined {
  const open = name.indexOf("{");
  const close = open < 0 ? -1 : name.indexOf("}", open + 1);
  return close > open + 1 ? name.slice(open + 1, close) : undefined;
}
