/**
 * Keys of one name: a hash with the lease, and two more while somebody waits.
 *
 * All three have the name as their hash tag, so that a cluster keeps them in one slot. The tag ends
 * at the first `}`, so braces of the name that would end it early are escaped, and nothing else but
 * the escape itself: keys stay readable.
 */

/** Default beginning of all keys and channels. */
export const DEFAULT_PREFIX = "tenure:";

const SLOTS = 16_384;

/** Keys and channels of a store. */
export class Keys {
  readonly #prefix: string;

  /** @param prefix has no braces */
  constructor(prefix: string) {
    this.#prefix = prefix;
  }

  /** The hash with token, holder and time. */
  lease(name: string): string {
    return `${this.#prefix}{${escapeTag(name)}}`;
  }

  /** Lease, line of waiters, and what is known of each waiter. */
  ofQueue(name: string): readonly [lease: string, line: string, waiters: string] {
    const lease = this.lease(name);
    return [lease, `${lease}:q`, `${lease}:w`];
  }

  /** The id of the store. */
  get store(): string {
    return `${this.#prefix}store`;
  }

  /** Where a process hears of its turns; on a cluster one for each name, in its slot. */
  channel(process: string, name: string, isCluster: boolean): string {
    return isCluster ? `${this.lease(name)}:c:${process}` : `${this.#prefix}wake:${process}`;
  }

  /** Pattern of SCAN for the leases whose names start with `prefix`, and perhaps others. */
  pattern(prefix: string): string {
    const literal = (text: string): string => text.replaceAll(/[*?[\]\\^-]/g, String.raw`\$&`);
    return `${literal(this.#prefix)}{${literal(escapeTag(prefix))}*}`;
  }

  /** The name of a lease's key; undefined for any other key. */
  nameOf(key: string): string | undefined {
    const start = this.#prefix.length + 1;
    const tag = key.slice(start, -1);
    if (!key.startsWith(`${this.#prefix}{`) || !key.endsWith("}") || tag.includes("}")) {
      return undefined;
    }
    const name = tag.replaceAll("%7D", "}").replaceAll("%25", "%");
    return name !== "" && this.lease(name) === key ? name : undefined;
  }
}

/** Text that ends a hash tag nowhere. */
function escapeTag(name: string): string {
  if (!name.includes("%") && !name.includes("}")) return name;
  return name.replaceAll("%", "%25").replaceAll("}", "%7D");
}

/**
 * The cluster slot of a key: CRC16 (XMODEM) of its hash tag.
 * https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags
 */
export function slotOf(key: string): number {
  const open = key.indexOf("{");
  const close = open < 0 ? -1 : key.indexOf("}", open + 1);
  const tag = close > open + 1 ? key.slice(open + 1, close) : key;
  let crc = 0;
  for (const byte of new TextEncoder().encode(tag)) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit++) {
      crc = (crc & 0x8000) === 0 ? crc << 1 : (crc << 1) ^ 0x1021;
    }
    crc &= 0xffff;
  }
  return crc % SLOTS;
}
