/** Options of an election, checked at once and before any I/O. */
import type { HolderInfo } from "../core/backend.js";
import { parseDuration } from "../core/duration.js";
import type { Duration } from "../core/duration.js";
import type { Manifest } from "../core/manifest.js";
import { checkKnown, checkSignal, leaseTerms, mergeInfo } from "../core/options.js";
import type { LeaseOptions } from "../core/options.js";

/** Terms on which all candidates of this process stand. */
export interface ElectionOptions extends Pick<LeaseOptions, "ttl" | "grace" | "renewEvery"> {
  /** Facts about the candidate, for those who look at the leader; host and pid are added. */
  readonly info?: HolderInfo;
}

/** Options of `campaign`. */
export interface CampaignOptions {
  /** How long to stand; 0 tries once. Default: until elected. */
  readonly wait?: Duration;
  /** Ends the candidacy; `campaign` then rejects with the signal's own reason. */
  readonly signal?: AbortSignal;
  /** As of the election, and over it. */
  readonly info?: HolderInfo;
}

/** Options of `lead`. */
export interface LeadOptions {
  /** Ends the candidacy, or aborts the work; see `lead`. */
  readonly signal?: AbortSignal;
  /** How long the work may take to stop once its term is revoked. Default: the grace. */
  readonly stepDown?: Duration;
  /** As of the election, and over it. */
  readonly info?: HolderInfo;
}

/** Checked options of an election; `graceMs` in milliseconds. */
export interface ElectionTerms {
  readonly lease: Pick<LeaseOptions, "ttl" | "grace" | "renewEvery">;
  readonly graceMs: number;
  readonly info: HolderInfo;
}

/** @throws TypeError or RangeError naming option and value. */
export function electionTerms(options: ElectionOptions, manifest: Manifest): ElectionTerms {
  checkKnown(options, ["ttl", "grace", "renewEvery", "info"]);
  const { info, ...lease } = options;
  const { graceMs } = leaseTerms(lease, manifest, {});
  return { lease, graceMs, info: mergeInfo(info, {}, "info") };
}

/** Checked options of `campaign`. @throws TypeError or RangeError naming option and value. */
export function campaignTerms(
  options: CampaignOptions,
  own: HolderInfo,
): {
  readonly waitMs: number;
  readonly signal: AbortSignal | undefined;
  readonly info: HolderInfo;
} {
  checkKnown(options, ["wait", "signal", "info"]);
  const { wait = Infinity, signal, info } = options;
  return {
    waitMs: parseDuration(wait, "wait", { zero: true, infinite: true }),
    signal: checkSignal(signal),
    info: mergeInfo(info, own, "info"),
  };
}

/** Checked options of `lead`. @throws TypeError or RangeError naming option and value. */
export function leadTerms(
  options: LeadOptions,
  { graceMs, info: own }: ElectionTerms,
): {
  readonly stepDownMs: number;
  readonly signal: AbortSignal | undefined;
  readonly info: HolderInfo;
} {
  checkKnown(options, ["signal", "stepDown", "info"]);
  const { stepDown = graceMs, signal, info } = options;
  return {
    stepDownMs: parseDuration(stepDown, "stepDown", { zero: true, infinite: true }),
    signal: checkSignal(signal),
    info: mergeInfo(info, own, "info"),
  };
}
