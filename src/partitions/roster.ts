/** Reading a group off its leases: who lives, who owns what. */
import type { HolderInfo } from "../core/backend.js";
import type { Inspection } from "../core/inspection.js";
import type { Tenure } from "../core/tenure.js";
import type { FencingToken } from "../core/token.js";
import type { PartitionsView, PartitionView } from "./contract.js";
import { PartitionCountError } from "./errors.js";
import { groupPrefix, memberPrefix, partitionPrefix, readMember, readPartition } from "./lease-names.js";

/** A living member, by its lease. */
export interface MemberSeen {
  readonly id: string;
  readonly count: number;
  readonly token: bigint | undefined;
  readonly info: HolderInfo;
}

/** A held partition, by its lease. */
export interface PartitionSeen extends PartitionView {
  /** Number of partitions that its owner was given; undefined where the store does not tell. */
  readonly of: number | undefined;
}

/** Facts that each lease of a partition carries, beside those about the process. */
export interface PartitionInfo extends HolderInfo {
  readonly member: string;
  readonly of: number;
}

type AnyTenure = Tenure<FencingToken>;

/** The living members, in order of their ids: one request, whatever the number of partitions. */
export async function readMembers(tenure: AnyTenure, group: string): Promise<MemberSeen[]> {
  const members: MemberSeen[] = [];
  for await (const seen of tenure.list(memberPrefix(group))) {
    const member = toMember(group, seen);
    if (member !== undefined) members.push(member);
  }
  return inOrder(members);
}

/** The held partitions, in no order. */
export async function readPartitions(tenure: AnyTenure, group: string): Promise<PartitionSeen[]> {
  const partitions: PartitionSeen[] = [];
  for await (const seen of tenure.list(partitionPrefix(group))) {
    const partition = toPartition(group, seen);
    if (partition !== undefined) partitions.push(partition);
  }
  return partitions;
}

/** All of a group's leases, of members and of partitions, in one list. */
export async function readGroup(
  tenure: AnyTenure,
  group: string,
): Promise<{ readonly members: MemberSeen[]; readonly partitions: PartitionSeen[] }> {
  const members: MemberSeen[] = [];
  const partitions: PartitionSeen[] = [];
  for await (const seen of tenure.list(groupPrefix(group))) {
    const member = toMember(group, seen);
    if (member !== undefined) members.push(member);
    const partition = toPartition(group, seen);
    if (partition !== undefined) partitions.push(partition);
  }
  return { members: inOrder(members), partitions };
}

function inOrder(members: MemberSeen[]): MemberSeen[] {
  return members.sort((a, b) => (a.id < b.id ? -1 : 1));
}

/** Refuses a number of partitions that the living do not share. @throws PartitionCountError. */
export function checkRunning(
  group: string,
  count: number,
  members: readonly Pick<MemberSeen, "count">[],
  partitions: readonly PartitionSeen[],
): void {
  const running =
    members.find((member) => member.count !== count)?.count ??
    partitions.find(({ of }) => of !== undefined && of !== count)?.of;
  if (running !== undefined) throw new PartitionCountError({ group, count, running });
}

/** Who owns what. */
export async function readView(tenure: AnyTenure, group: string): Promise<PartitionsView> {
  const members = await readMembers(tenure, group);
  const held = await readPartitions(tenure, group);
  const partitions = held
    .sort((a, b) => a.partition - b.partition)
    .map(({ of: _of, ...partition }): PartitionView => partition);
  const count = members[0]?.count;
  const taken = new Set(partitions.map(({ partition }) => partition));
  const all = Array.from({ length: count ?? 0 }, (_, partition) => partition);
  return {
    name: group,
    count,
    members: members.map(({ id, info }) => ({
      id,
      info,
      partitions: partitions.filter(({ member }) => member === id).map((one) => one.partition),
    })),
    partitions,
    unowned: all.filter((partition) => !taken.has(partition)),
  };
}

function toMember(group: string, seen: Inspection): MemberSeen | undefined {
  // Held back by the store after its session died: it lives no more.
  if (seen.token === undefined) return undefined;
  const read = readMember(group, seen.name);
  return read && { ...read, token: seen.token, info: seen.holderInfo ?? {} };
}

function toPartition(group: string, seen: Inspection): PartitionSeen | undefined {
  const partition = readPartition(group, seen.name);
  if (partition === undefined) return undefined;
  const { member, of } = seen.holderInfo ?? {};
  return {
    partition,
    token: seen.token,
    member: typeof member === "string" ? member : undefined,
    of: typeof of === "number" ? of : undefined,
    ...(seen.expiresInMs === undefined ? {} : { expiresInMs: seen.expiresInMs }),
  };
}
