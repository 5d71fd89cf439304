/** Leases, fencing tokens and the rest of the core. Stores and fences have their own subpaths. */
export { connect, type ConnectOptions } from "./connect.js";
export type { Armed, ArmTarget } from "./core/arm.js";
export type {
  AcquireRequest, Answer, Backend, Call, Grant, Held, HolderInfo, NotifyWaiting, PollWaiting,
  QueueWaiting, Released, ReleaseRequest, Renewed, Sessions, Ticket,
} from "./core/backend.js";
export type { Clock, Timer, Timers } from "./core/clock.js";
export type { DetachedLease } from "./core/detached.js";
export type { Duration } from "./core/duration.js";
export {
  ArgumentRangeError, ArgumentTypeError, FenceError, GuaranteeError, LeaseLostError,
  NotAcquiredError, NotArmedError, NotLeaderError, OutcomeUnknownError, StaleTokenError,
  StepDownTimeoutError, SupersededError, TenureError, TokenConflictError, TokenScopeError,
  UnavailableError, UnverifiedError,
} from "./core/errors.js";
export type {
  CallerMistake, ErrorFamily, LostReason, SeenMark, WorkOutcome,
} from "./core/errors.js";
export type {
  EventSink, EventType, PauseShare, RevokedReason, TenureEvent,
} from "./core/events.js";
export type { Purpose, Requirement } from "./core/guarantee.js";
export type { TimeStats } from "./core/histogram.js";
export type { ArmTargets, HoldOptions, Work } from "./core/hold.js";
export type { Inspection } from "./core/inspection.js";
export type { Lease, LeaseState } from "./core/lease.js";
export type { Manifest, TokenStrength } from "./core/manifest.js";
export type { AcquireOptions, BreakOptions, LeaseOptions } from "./core/options.js";
export type { Random } from "./core/random.js";
export type { PauseMonitor, PauseReading, Runtime } from "./core/runtime.js";
export type { NameStats, RenewalStats } from "./core/stats.js";
export { Tenure, type ArmsOf } from "./core/tenure.js";
export type { TenureOptions } from "./core/tenure-options.js";
export { compareTokens, formatToken, MAX_TOKEN, parseToken, toToken } from "./core/token.js";
export type { FencingToken, TokenBearer } from "./core/token.js";
