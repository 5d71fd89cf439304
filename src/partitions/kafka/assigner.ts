/** Who is to have what, computed by the member that the broker made the leader of the group. */
import { partOf } from "../plan.js";
import type { Assignment } from "./client.js";

/** What the library hands to an assigner, as far as it is used. */
type Members = ReadonlyMap<string, unknown>;
type Metadata = { readonly topics: ReadonlyMap<string, { readonly partitionsCount: number }> };

/**
 * Even to one, and by scores of member and partition: when one comes or goes most partitions stay.
 */
export function assigner(
  _leader: string,
  members: Members,
  topics: ReadonlySet<string>,
  metadata: Metadata,
): { memberId: string; assignments: Map<string, Assignment> }[] {
  const ids = [...members.keys()];
  const owners = new Map<number, string>();
  return ids.map((memberId) => {
    const assignments = new Map<string, Assignment>();
    for (const topic of topics) {
      const count = metadata.topics.get(topic)?.partitionsCount ?? 0;
      const { take } = partOf(memberId, { count, members: ids, owners });
      assignments.set(topic, { topic, partitions: [...take] });
    }
    return { memberId, assignments };
  });
}
