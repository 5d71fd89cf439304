/** Where things are kept, and how a name becomes a key. */
import { ArgumentTypeError } from "../../core/errors.js";
import { checkName } from "../../core/names.js";

/** Default beginning of all keys. */
export const DEFAULT_PREFIX = "tenure";

/** What stands for itself in a key; everything else is escaped. */
const PLAIN = /^[A-Za-z0-9_:-]$/;

/**
 * Keys under one prefix. Names become one segment each, byte by byte: `.` and `/` have a meaning in
 * paths, and an agent refuses what cannot be printed. So `report:daily` is `report:daily`, `a/b` is
 * `a~2Fb`, and a prefix of a name is a prefix of its key.
 */
export class Keys {
  /** The store's id. */
  readonly storeId: string;
  readonly #leases: string;

  constructor(prefix: string) {
    this.storeId = `${prefix}/store-id`;
    this.#leases = `${prefix}/lease/`;
  }

  /** The record of a name; also the beginning of the keys of all names that begin so. */
  lease(name: string): string {
    return this.#leases + encodeSegment(name);
  }

  /** The name of a record; undefined for a key that no name has. */
  name(key: string): string | undefined {
    if (!key.startsWith(this.#leases)) return undefined;
    try {
      const text = key.slice(this.#leases.length);
      const name = decodeURIComponent(text.replaceAll("%", "%25").replaceAll("~", "%"));
      return name !== "" && encodeSegment(name) === text ? name : undefined;
    } catch {
      return undefined;
    }
  }
}

function encodeSegment(name: string): string {
  const bytes = new TextEncoder().encode(name);
  return Array.from(bytes, (byte) => {
    const letter = String.fromCharCode(byte);
    return PLAIN.test(letter) ? letter : `~${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  }).join("");
}

/** @throws TypeError unless it is a path of plain segments, without slashes at its ends. */
export function checkKeyPrefix(prefix: unknown): string {
  const text = checkName(prefix, "prefix");
  const isPath = text
    .split("/")
    .every((part) => /^[A-Za-z0-9_.-]+$/.test(part) && !/^\.+$/.test(part));
  if (isPath) return text;
  throw new ArgumentTypeError(
    "prefix",
    prefix,
    "segments of A-Z a-z 0-9 _ . - with / between them",
  );
}
