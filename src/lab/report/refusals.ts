/** Why the resource refused: its numbers where they say it all. */
import type { EventOf } from "../history.js";
import { withNames, type TokenNames } from "./names.js";

type Operation = EventOf<"arm" | "read" | "write">;

/** The reason of each operation that was refused, as `33 < 34` where the token was too low. */
export function refusalsOf(
  operations: readonly Operation[],
  names: TokenNames,
): ReadonlyMap<Operation, string> {
  const found = new Map<Operation, string>();
  const marks = new Map<string, Operation>();
  for (const one of operations) {
    const mark = marks.get(one.resource);
    if (one.accepted) {
      const isHigher = mark === undefined || BigInt(one.token) >= BigInt(mark.token);
      if (one.kind !== "read" && isHigher) marks.set(one.resource, one);
      continue;
    }
    found.set(one, reason(one, mark, names));
  }
  return found;
}

function reason(one: Operation, mark: Operation | undefined, names: TokenNames): string {
  const why = withNames(one.why ?? "refused", names);
  if (mark === undefined || /[<=]/.test(why)) return why;
  const [own, its] = [names(one.token), names(mark.token)];
  if (BigInt(one.token) < BigInt(mark.token)) return `${own} < ${its}`;
  const isOther = one.token === mark.token && one.holder !== mark.holder;
  return isOther ? `${own} = ${its}, other holder` : why;
}
