/** Partitions of a Kafka topic, each with a token: what `tenure/partitions/kafka` offers. */
import type { Tenure } from "../../core/tenure.js";
import type { FencingToken } from "../../core/token.js";
import { MissingLibraryError } from "../../drivers/missing-library.js";
import type { PartitionGroup } from "../contract.js";
import type { KafkaLibrary } from "./client.js";
import { kafkaGroup } from "./group.js";
import type { KafkaPartitionsOptions } from "./options.js";
import type { KafkaPartition } from "./topic-partition.js";

export { PartitionRevokedError } from "../errors.js";
export { partitionOf } from "../key-hash.js";
export type * from "../contract.js";
export type { KafkaPartition } from "./topic-partition.js";
export type { KafkaPartitionsOptions } from "./options.js";
export type { KafkaMessage } from "./reading.js";

const INSTALL_LINE = "npm install @platformatic/kafka@1";

/**
 * Joins a consumer group of Kafka: the broker assigns the partitions of the topic, and each is
 * owned by a lease of `tenure`, whose token a fence takes.
 *
 * @throws TypeError or RangeError for bad arguments. UnavailableError when no broker answers, the
 *   topic does not exist, or `@platformatic/kafka` is not installed. GuaranteeError on a store
 *   without tokens.
 */
export async function kafkaPartitions(
  tenure: Tenure<FencingToken>,
  options: KafkaPartitionsOptions,
): Promise<PartitionGroup<KafkaPartition>> {
  return kafkaGroup(tenure, await load(), options);
}

async function load(): Promise<KafkaLibrary> {
  try {
    return await import("@platformatic/kafka");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ERR_MODULE_NOT_FOUND") throw error;
    const what = "a Kafka group needs the client library";
    throw new MissingLibraryError(what, INSTALL_LINE, { backend: "kafka" });
  }
}
