/** Options of a group over Kafka, checked at once and before any I/O. */
import { parseDuration, type Duration } from "../../core/duration.js";
import { ArgumentTypeError } from "../../core/errors.js";
import type { Manifest } from "../../core/manifest.js";
import { checkKnown } from "../../core/options.js";
import { OWNERSHIP_OPTIONS, ownershipTerms } from "../options.js";
import type { OwnershipOptions, OwnershipTerms } from "../options.js";

/** Options of {@link kafkaPartitions}. */
export interface KafkaPartitionsOptions extends Omit<
  OwnershipOptions,
  "ttl" | "grace" | "renewEvery"
> {
  /** Addresses to begin with, each `host:port`. */
  readonly brokers: readonly string[];
  /** Name of the consumer group. */
  readonly groupId: string;
  readonly topic: string;
  /**
   * How long the broker waits for a silent member. Default 10 s. The leases of the partitions last
   * one and a half times as long: see the head of `commits.ts`.
   */
  readonly sessionTimeout?: Duration;
  /** Name of this program, in the broker's logs. Default `tenure`. */
  readonly clientId?: string;
  /** Further options of the library's clients, such as `tls` and `sasl`. */
  readonly connection?: object;
}

/** Checked options; durations in milliseconds. */
export interface KafkaTerms extends OwnershipTerms {
  readonly brokers: readonly string[];
  readonly groupId: string;
  readonly topic: string;
  readonly sessionMs: number;
  /** Options that all clients share. */
  readonly client: { readonly clientId: string; readonly bootstrapBrokers: string[] };
}

const KNOWN = [
  ...["brokers", "groupId", "topic", "sessionTimeout", "clientId", "connection"],
  ...OWNERSHIP_OPTIONS.filter((option) => !["ttl", "grace", "renewEvery"].includes(option)),
];

/** @throws TypeError or RangeError naming option and value. */
export function kafkaTerms(options: KafkaPartitionsOptions, manifest: Manifest): KafkaTerms {
  checkKnown(options, KNOWN);
  const { brokers, sessionTimeout = "10s", clientId = "tenure", connection, ...rest } = options;
  const areAddresses = (list: unknown): boolean =>
    Array.isArray(list) && list.length > 0 && list.every((one) => /^\S+:[0-9]+$/.test(String(one)));
  if (!areAddresses(brokers)) {
    throw new ArgumentTypeError("brokers", brokers, 'a list of addresses, each "host:port"');
  }
  const sessionMs = parseDuration(sessionTimeout, "sessionTimeout");
  const { groupId: _group, topic: _topic, ...ownership } = rest;
  return {
    ...ownershipTerms({ ...ownership, ttl: Math.ceil(sessionMs * 1.5) }, manifest),
    brokers,
    groupId: text(options.groupId, "groupId"),
    topic: text(options.topic, "topic"),
    sessionMs,
    client: {
      ...connection,
      clientId: text(clientId, "clientId"),
      bootstrapBrokers: [...brokers],
    },
  };
}

function text(value: unknown, option: string): string {
  if (typeof value === "string" && value !== "") return value;
  throw new ArgumentTypeError(option, value, "a text");
}
