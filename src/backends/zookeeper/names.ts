/**
 * Names as names of nodes.
 *
 * A lock's folder is its name with what nodes may not have (slashes, control characters, `.` as a
 * whole) percent-encoded. A contender's node in it is `holder~session~` and the ten digits that the
 * server adds.
 *
 * Those digits are a 32-bit counter of the folder. It starts again when the folder was removed and
 * ends after 2^31 contenders, so it is no token, and near its end no order either: see `line.ts`.
 */

/** The name of a lock's folder. */
export function encodeName(name: string): string {
  return encodeURIComponent(name).replace(/^\./, "%2E");
}

/** The name of a lock, or undefined for a folder that is not ours. */
export function decodeName(folder: string): string | undefined {
  try {
    const name = decodeURIComponent(folder);
    return encodeName(name) === folder ? name : undefined;
  } catch {
    return undefined;
  }
}

/** A contender's node, by its name. */
export interface Contender {
  /** Name of the node within its folder. */
  readonly node: string;
  readonly holder: string;
  readonly session: string;
  readonly sequence: number;
}

/** What the name of a contender's node begins with: the server adds the rest. */
export function contenderPrefix(holder: string, session: string): string {
  return `${encodeHolder(holder)}~${session}~`;
}

/** The contenders among a folder's children by their digits; strangers' nodes are left out. */
export function contenders(children: readonly string[]): readonly Contender[] {
  const found: Contender[] = [];
  for (const node of children) {
    const match = /^([^~]+)~([0-9a-f]+)~(-?\d{9,10})$/.exec(node);
    if (match === null) continue;
    const [, encoded = "", session = "", digits] = match;
    const holder = decodeName(encoded.replaceAll("%7E", "~"));
    if (holder !== undefined) found.push({ node, holder, session, sequence: Number(digits) });
  }
  return found.sort((a, b) => a.sequence - b.sequence);
}

function encodeHolder(holder: string): string {
  return encodeName(holder).replaceAll("~", "%7E");
}
