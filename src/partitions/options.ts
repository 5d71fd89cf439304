/** Options of a group, checked at once and before any I/O. */
import type { HolderInfo } from "../core/backend.js";
import { parseDuration, type Duration } from "../core/duration.js";
import { ArgumentRangeError, ArgumentTypeError, GuaranteeError } from "../core/errors.js";
import type { Manifest } from "../core/manifest.js";
import { checkName, utf8Bytes } from "../core/names.js";
import { checkKnown, checkSignal, leaseTerms, mergeInfo, type LeaseOptions } from "../core/options.js";
import type { Tenure } from "../core/tenure.js";
import type { FencingToken } from "../core/token.js";
import type { PartitionChange } from "./contract.js";

/** What groups have in common, whoever assigns their partitions. */
export interface OwnershipOptions extends Pick<LeaseOptions, "ttl" | "grace" | "renewEvery"> {
  /**
   * How long an owner may take to give a revoked partition up. Then its `signal` aborts, and one
   * grace later it is given up all the same. Default 30 s; Infinity waits for ever.
   */
  readonly drain?: Duration;
  /** Facts about this member, for those who look; host and pid are added. */
  readonly info?: HolderInfo;
  /** Told of each change in what this member owns. What it throws goes to `onError`. */
  readonly onChange?: (change: PartitionChange) => void;
  /** Told what went wrong on the way; the group goes on. What it throws ends the group. */
  readonly onError?: (error: unknown) => void;
}

/** Options of {@link partitions}. */
export interface PartitionsOptions extends OwnershipOptions {
  /** Number of partitions, the same for all members: from 1 to 100,000. */
  readonly count: number;
  /** Gives up joining; `partitions` then rejects with the signal's own reason. */
  readonly signal?: AbortSignal;
}

/** Checked options; durations in milliseconds. */
export interface OwnershipTerms {
  readonly lease: Pick<LeaseOptions, "ttl" | "grace" | "renewEvery">;
  readonly ttlMs: number;
  readonly graceMs: number;
  readonly drainMs: number;
  readonly info: HolderInfo;
  readonly onChange: (change: PartitionChange) => void;
  readonly onError: (error: unknown) => void;
}

/** Checked options of {@link partitions}. */
export interface PartitionsTerms extends OwnershipTerms {
  readonly count: number;
  readonly signal: AbortSignal | undefined;
}

/** The options of an ownership that are the same for all groups. */
export const OWNERSHIP_OPTIONS: readonly string[] = [
  ...["ttl", "grace", "renewEvery", "drain", "info", "onChange", "onError"],
];

/** More partitions than a group could want: each is a lease of its own. */
const MOST_PARTITIONS = 100_000;
const DEFAULT_DRAIN_MS = 30_000;
/** What the names of the leases add to that of the group. */
const LONGEST_SUFFIX = 112;
const LONGEST_NAME = 512 - LONGEST_SUFFIX;

/** @throws TypeError or RangeError naming option and value. */
export function partitionsTerms(options: PartitionsOptions, manifest: Manifest): PartitionsTerms {
  checkGiven(options, "an object with at least count, the number of partitions");
  checkKnown(options, [...OWNERSHIP_OPTIONS, "count", "signal"]);
  const { count, signal } = options;
  return {
    ...ownershipTerms(options, manifest),
    count: checkCount(count),
    signal: checkSignal(signal),
  };
}

/** @throws TypeError or RangeError naming option and value. */
export function ownershipTerms(options: OwnershipOptions, manifest: Manifest): OwnershipTerms {
  const { ttl, grace, renewEvery, drain, info, onChange, onError } = options;
  const lease = {
    ...(ttl === undefined ? {} : { ttl }),
    ...(grace === undefined ? {} : { grace }),
    ...(renewEvery === undefined ? {} : { renewEvery }),
  };
  const { ttlMs, graceMs } = leaseTerms(lease, manifest, {});
  const drainMs =
    drain === undefined
      ? DEFAULT_DRAIN_MS
      : parseDuration(drain, "drain", { zero: true, infinite: true });
  return {
    lease,
    ttlMs,
    graceMs,
    drainMs,
    info: mergeInfo(info, {}, "info"),
    onChange: checkFunction(onChange, "onChange"),
    onError: checkFunction(onError, "onError"),
  };
}

/** @throws TypeError or RangeError. */
export function checkGroupName(name: unknown): string {
  const checked = checkName(name);
  if (utf8Bytes(checked) > LONGEST_NAME) {
    throw new ArgumentRangeError("name", checked, `1 to ${LONGEST_NAME} bytes of UTF-8`);
  }
  return checked;
}

/**
 * @throws TypeError for anything but a tenure. GuaranteeError on a store without tokens, where
 *   nothing could tell two owners apart.
 */
export function checkTenure(tenure: Tenure<FencingToken>): void {
  if (typeof (tenure as Partial<typeof tenure> | undefined)?.tryAcquire !== "function") {
    throw new ArgumentTypeError("tenure", tenure, "a tenure, as connect makes it");
  }
  const { tokens, backend } = tenure.manifest as { readonly tokens: string; backend: string };
  if (tokens !== "none") return;
  const text = `${backend} hands out no tokens, so no owner could be told from another`;
  throw new GuaranteeError(text, { backend });
}

/** An object of which some parts have no default. @throws TypeError saying which those are. */
export function checkGiven(value: unknown, must: string, option = "options"): void {
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new ArgumentTypeError(option, value, must);
  }
}

function checkCount(count: unknown): number {
  const must = `a whole number from 1 to ${MOST_PARTITIONS}`;
  if (typeof count !== "number") throw new ArgumentTypeError("count", count, must);
  if (!Number.isInteger(count) || count < 1 || count > MOST_PARTITIONS) {
    throw new ArgumentRangeError("count", count, must);
  }
  return count;
}

function checkFunction<A>(value: unknown, option: string): (argument: A) => void {
  if (value === undefined) return () => undefined;
  if (typeof value !== "function") throw new ArgumentTypeError(option, value, "a function");
  return value as (argument: A) => void;
}
