/** The names of a group's leases, and what can be read off them. */

/** Start of the names of all leases of a group. */
export function groupPrefix(group: string): string {
  return `${group}/`;
}

/** Held for the moment in which a member joins. */
export function joinName(group: string): string {
  return `${groupPrefix(group)}join`;
}

/** Start of the names of all members. */
export function memberPrefix(group: string): string {
  return `${groupPrefix(group)}member/`;
}

/** The lease by which a member lives; the number of partitions is part of it. */
export function memberName(group: string, count: number, id: string): string {
  return `${memberPrefix(group)}${count}/${id}`;
}

/** Start of the names of all partitions. */
export function partitionPrefix(group: string): string {
  return `${groupPrefix(group)}partition/`;
}

/**
 * The lease of a partition. The number of partitions is no part of it: tokens go on growing when
 * that is changed one day.
 */
export function partitionName(group: string, partition: number): string {
  return `${partitionPrefix(group)}${partition}`;
}

/** A member by the name of its lease; undefined for a name that is none. */
export function readMember(
  group: string,
  name: string,
): { readonly count: number; readonly id: string } | undefined {
  if (!name.startsWith(memberPrefix(group))) return undefined;
  const match = /^([1-9][0-9]{0,6})\/([^/]+)$/.exec(name.slice(memberPrefix(group).length));
  return match === null ? undefined : { count: Number(match[1]), id: match[2]! };
}

/** A partition by the name of its lease; undefined for a name that is none. */
export function readPartition(group: string, name: string): number | undefined {
  if (!name.startsWith(partitionPrefix(group))) return undefined;
  const rest = name.slice(partitionPrefix(group).length);
  return /^(0|[1-9][0-9]{0,6})$/.test(rest) ? Number(rest) : undefined;
}
