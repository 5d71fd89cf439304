/**
 * Where the mark of a resource is kept.
 *
 * In a cluster it must be in the slot of the data, so its key has the hash tag that decides the
 * slot of a key named like the resource: the tag within the name (`{user:7}:cart` has `user:7`), or
 * else the whole name. A resource named like its data's key needs nothing more. Names that no tag
 * can repeat (`a}b`) are escaped; their data goes under `dataKey`.
 *
 * No key of one resource is a key of another, whatever the names are. A prefix has no braces, so
 * the first tag tells it apart, and after the tag come `:t:` or `:u:` and the name, `:e`, or one of
 * the ends that `lowKey` and `dataKey` add. Where a tag is within the name, the name stands last,
 * and could itself look like another name with such an end: `{x}a:low` like what is left of the
 * mark of `{x}a`. Those names are escaped after `:u:`, so that no colon of theirs is left.
 */

/** Default beginning of the keys of a fence. */
export const DEFAULT_PREFIX = "tenure:fence:";

const LOW = ":low";
const DATA = ":v:";

/** The hash with the mark. */
export function markKey(prefix: string, resource: string): string {
  const tag = tagOf(resource);
  if (tag !== undefined) {
    const named = endsWithin(resource) ? `u:${escape(resource, ":")}` : `t:${resource}`;
    return `${prefix}{${tag}}:${named}`;
  }
  if (!/[{}]/.test(resource)) return `${prefix}{${resource}}`;
  return `${prefix}{${escape(resource, "}")}}:e`;
}

/** Whether a name, or a name with an end, could be read as a shorter name with one. */
function endsWithin(name: string): boolean {
  return name.endsWith(LOW) || `${name}:`.includes(DATA);
}

/** Without this character, and still another text for another name. */
function escape(name: string, char: ":" | "}"): string {
  const code = char.charCodeAt(0).toString(16).toUpperCase();
  return name.replaceAll("%", "%25").replaceAll(char, `%${code}`);
}

/** What is left of a mark that was lost: see `scripts.ts`. */
export function lowKey(mark: string): string {
  return `${mark}${LOW}`;
}

/** A key for data of the resource, in the slot of its mark. */
export function dataKey(mark: string, suffix: string): string {
  return `${mark}${DATA}${suffix}`;
}

/** Between the first `{` and the first `}` after it, unless there is nothing between. */
function tagOf(name: string): string | undefined {
  const open = name.indexOf("{");
  const close = open < 0 ? -1 : name.indexOf("}", open + 1);
  return close > open + 1 ? name.slice(open + 1, close) : undefined;
}
