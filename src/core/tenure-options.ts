/** What a tenure is opened with. */
import type { HolderInfo } from "./backend.js";
import type { Duration } from "./duration.js";
import type { Purpose, Requirement } from "./guarantee.js";

/** Options of a tenure. */
export interface TenureOptions {
  /** What the leases are for. Default `correctness`. */
  readonly purpose?: Purpose;
  /** Weakest token strength that is accepted. Default: any that `purpose` accepts. */
  readonly require?: Requirement;
  /** Longest that one call to the store may take. Default 5 s. */
  readonly timeout?: Duration;
  /** Facts that are stored beside each lease, for people. Never compared. */
  readonly holderInfo?: HolderInfo;
}
