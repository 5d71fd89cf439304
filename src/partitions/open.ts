/** Partitions over the living members: what `tenure/partitions` offers. */
export { PartitionCountError, PartitionRevokedError } from "./errors.js";
export { partitions, partitionsView } from "./group.js";
export { partitionOf } from "./key-hash.js";
export type {
  MemberView, OwnedPartition, OwnershipState, PartitionChange, PartitionGroup, PartitionsView,
  PartitionView, PartitionWork,
} from "./contract.js";
export type { OwnershipOptions, PartitionsOptions } from "./options.js";
