/** Options of a group over Kafka, checked at once and before any I/O. */
import { parseDuration, type Duration } from "../../core/duration.js";
import { ArgumentRangeError, ArgumentTypeError } from "../../core/errors.js";
import type { Manifest } from "../../core/manifest.js";
import { utf8Bytes } from "../../core/names.js";
import { checkKnown } from "../../core/options.js";
import { checkGiven, OWNERSHIP_OPTIONS, ownershipTerms } from "../options.js";
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
  /** Further options of the library's clients, such as `tls` and `sasl`; none that are set here. */
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

/** The group's leases are named by group and topic, which together must leave room in a name. */
const LONGEST_ID = 140;

const KNOWN = [
  ...["brokers", "groupId", "topic", "sessionTimeout", "clientId", "connection"],
  ...OWNERSHIP_OPTIONS.filter((option) => !["ttl", "grace", "renewEvery"].includes(option)),
];

/** What the clients are given here, or must not be: one member has several of them. */
const SET_HERE = [
  ...["clientId", "bootstrapBrokers", "groupId", "autocommit", "requestTimeout", "retries"],
  ...["groupProtocol", "groupInstanceId", "groupRemoteAssignor", "sessionTimeout"],
  ...["rebalanceTimeout", "heartbeatInterval", "protocols", "partitionAssigner"],
];
/** The lease of a partition lasts so many sessions. */
const LEASE_SESSIONS = 1.5;

/** @throws TypeError or RangeError naming option and value. */
export function kafkaTerms(options: KafkaPartitionsOptions, manifest: Manifest): KafkaTerms {
  checkGiven(options, "an object with at least brokers, groupId and topic");
  checkKnown(options, KNOWN);
  const { brokers, sessionTimeout = "10s", clientId = "tenure", connection, ...rest } = options;
  const { groupId: _group, topic: _topic, ...ownership } = rest;
  const addresses = checkBrokers(brokers);
  const groupId = checkText(options.groupId, "groupId");
  const topic = checkTopic(options.topic);
  const { minTtlMs, maxTtlMs } = manifest;
  const sessionMs = parseDuration(sessionTimeout, "sessionTimeout", {
    minMs: Math.ceil(minTtlMs / LEASE_SESSIONS),
    maxMs: Math.floor(maxTtlMs / LEASE_SESSIONS),
  });
  return {
    ...ownershipTerms({ ...ownership, ttl: Math.ceil(sessionMs * LEASE_SESSIONS) }, manifest),
    brokers: addresses,
    groupId,
    topic,
    sessionMs,
    client: {
      ...checkConnection(connection),
      clientId: checkText(clientId, "clientId"),
      bootstrapBrokers: [...addresses],
    },
  };
}

function checkBrokers(brokers: unknown): readonly string[] {
  const must = 'a list of addresses, each "host:port"';
  if (!Array.isArray(brokers)) throw new ArgumentTypeError("brokers", brokers, must);
  if (brokers.length === 0) throw new ArgumentRangeError("brokers", [], `${must}, at least one`);
  return brokers.map((address: unknown, i) => {
    const text = typeof address === "string" ? address : "";
    const port = Number(/^[^\s/]+:([0-9]{1,5})$/.exec(text)?.[1] ?? 0);
    if (port >= 1 && port <= 65_535) return text;
    throw new ArgumentTypeError(`brokers[${i}]`, address, '"host:port"');
  });
}

/** As Kafka allows them. */
function checkTopic(topic: unknown): string {
  const must = "the name of a topic: 1 to 249 of the characters a-z A-Z 0-9 . _ -";
  if (typeof topic !== "string") throw new ArgumentTypeError("topic", topic, must);
  if (!/^[a-zA-Z0-9._-]{1,249}$/.test(topic)) throw new ArgumentRangeError("topic", topic, must);
  return topic;
}

function checkText(value: unknown, option: string): string {
  const must = `a text without spaces, of at most ${LONGEST_ID} bytes`;
  if (typeof value !== "string") throw new ArgumentTypeError(option, value, must);
  const isFit = /^\S+$/.test(value) && utf8Bytes(value) <= LONGEST_ID;
  if (!isFit) throw new ArgumentRangeError(option, value, must);
  return value;
}

function checkConnection(connection: unknown): object {
  if (connection === undefined) return {};
  checkGiven(connection, "an object, such as { tls: {} }", "connection");
  for (const [key, value] of Object.entries(connection as object)) {
    if (!SET_HERE.includes(key)) continue;
    const must = "left out: all clients of a member get theirs from tenure";
    throw new ArgumentTypeError(`connection.${key}`, value, must);
  }
  return connection as object;
}
