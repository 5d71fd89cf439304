/** The leader as others see it. */
import type { HolderInfo } from "../core/backend.js";
import type { Inspection } from "../core/inspection.js";

/** Who leads, as the store shows it. Old the moment it is read: decide nothing by it. */
export interface Leader {
  readonly term: bigint;
  /** Random id of the grant, where the store shows it. */
  readonly holder: string | undefined;
  /** What the leader told of itself as a candidate, with its host and pid. */
  readonly info: HolderInfo;
}

/** The leader in the record of the election; null when nobody holds it. */
export function leaderOf(seen: Inspection | null): Leader | null {
  // Held back by the store after a session died: nobody leads.
  if (seen?.token === undefined) return null;
  return { term: seen.token, holder: seen.holder, info: seen.holderInfo ?? {} };
}

/**
 * The changes of a leader, without repeats. An answer that shows an older term than one before it
 * is stale (a replica that lags, say) and passed over.
 */
export async function* changes(
  watch: AsyncIterable<Inspection | null>,
): AsyncGenerator<Leader | null, void, undefined> {
  let told: bigint | null | undefined;
  let newest = 0n;
  for await (const seen of watch) {
    const leader = leaderOf(seen);
    const term = leader?.term ?? null;
    if (term === told || (term !== null && term < newest)) continue;
    newest = term ?? newest;
    told = term;
    yield leader;
  }
}
