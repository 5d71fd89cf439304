/**
 * The lab: the real code in a simulated world, where every failure can be made to happen, again and
 * again in just the same way.
 */
export { chaos, type ChaosOptions, type ChaosResult } from "./chaos.js";
export { INVARIANTS, type InvariantId, type Violation } from "./checkers/violation.js";
export { curve, type CurveOptions, type CurvePoint } from "./curve.js";
export { History, type HistoryEvent } from "./history.js";
export { html } from "./report/html.js";
export { mermaid } from "./report/mermaid.js";
export {
  checkHistory,
  readHistory,
  type BadLine,
  type Recorded,
  type RecordedRules,
} from "./report/recorded.js";
export { reportedOf, type Reported } from "./report/reported.js";
export { timeline, type TimelineOptions } from "./report/timeline.js";
export type { FenceMode } from "./resource.js";
export { findScenario, play, SCENARIOS } from "./scenarios/play.js";
export type { Scenario, ScenarioResult } from "./scenarios/scenario.js";
export {
  simulate,
  type Section,
  type Simulated,
  type SimulatedFault,
  type SimulateOptions,
  type When,
  type Work,
} from "./simulate.js";
export {
  Simulation,
  singleStore,
  type MakeStore,
  type Outcome,
  type SimulationOptions,
} from "./simulation.js";
export { shrink, type Reduction, type Shrunk, type ShrinkOptions } from "./shrink.js";
export { soak, type SoakFind, type SoakOptions, type SoakResult, type SoakRun } from "./soak.js";
export { STORE_MODELS, type StoreName } from "./store-models.js";
export { observedStore } from "./stores/observed-store.js";
export { replicatedPair, type ReplicatedPair } from "./stores/replicated-pair.js";
export { sessionStore, type SessionStore } from "./stores/session-store.js";
export { mutationScore, VARIANTS, type MutationScore } from "./variants/index.js";
export type { Variant } from "./variants/variant.js";
