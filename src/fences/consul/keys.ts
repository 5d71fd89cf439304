import { ArgumentTypeError } from "../../core/errors.js";
import { checkName } from "../../core/names.js";

/** Default beginning of the keys of marks and of leases. */
export const DEFAULT_PREFIX = "tenure";

/** What stands for itself; everything else is escaped, as the backend does it. */
const PLAIN = /^[A-Za-z0-9_:-]$/;

/** The key of a resource's mark. */
export function markKey(prefix: string, resource: string): string {
  return `${prefix}/mark/${encodeSegment(resource)}`;
}

/** The key of a lease, where the backend keeps it: for held checks. */
export function leaseKey(prefix: string, name: string): string {
  return `${prefix}/lease/${encodeSegment(name)}`;
}

function encodeSegment(name: string): string {
  const bytes = new TextEncoder().encode(name);
  return Array.from(bytes, (byte) => {
    const letter = String.fromCharCode(byte);
    return PLAIN.test(letter) ? letter : `~${byte.toString(16).toUpperCase().padStart(2, "0")}`;
  }).join("");
}

/** @throws TypeError unless it is a path of plain segments, without slashes at its ends. */
export function checkKeyPrefix(prefix: unknown, option: string): string {
  const text = checkName(prefix, option);
  const isPath = text
    .split("/")
    .every((part) => /^[A-Za-z0-9_.-]+$/.test(part) && !/^\.+$/.test(part));
  if (isPath) return text;
  throw new ArgumentTypeError(option, prefix, "segments of A-Z a-z 0-9 _ . - with / between them");
}
