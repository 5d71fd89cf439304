/** `run`: the works of one member, until its group ends. */
import { whenAborted } from "../core/aborting.js";
import { ArgumentTypeError, UnavailableError } from "../core/errors.js";
import { checkKnown, checkSignal } from "../core/options.js";
import type { PartitionGroup, PartitionWork } from "./contract.js";
import type { Holdings } from "./holdings.js";
import type { Ownership } from "./ownership.js";

/** The end that a group's caller wished for. */
class GroupClosedError extends UnavailableError {}

/** Why a group that was closed does nothing any more. */
export function closedError(group: string, backend: string): UnavailableError {
  const text = `the group ${JSON.stringify(group)} was closed`;
  return new GroupClosedError(text, { backend, retryable: false });
}

/** See {@link PartitionGroup.run}. */
export async function runWork<O extends Ownership>(
  group: Pick<PartitionGroup, "signal" | "close">,
  holdings: Holdings<O>,
  work: PartitionWork<O>,
  options: { readonly signal?: AbortSignal },
): Promise<void> {
  if (typeof work !== "function") throw new ArgumentTypeError("work", work, "a function");
  checkKnown(options, ["signal"]);
  const signal = checkSignal(options.signal);
  if (holdings.hasWork) {
    throw new ArgumentTypeError("work", work, "given once: this group has a work already");
  }
  holdings.begin(work);
  const unlisten = whenAborted(signal, () => void group.close());
  await new Promise<void>((over) => void whenAborted(group.signal, over));
  unlisten();
  await group.close();
  const reason: unknown = group.signal.reason;
  if (!(reason instanceof GroupClosedError)) throw reason;
}
