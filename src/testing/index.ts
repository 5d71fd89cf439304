/**
 * For those who write a backend, and for tests on simulated time: the conformance suite, faults to
 * put between a backend and its caller, and a runtime whose time moves when told.
 */
export { BrokenPromise } from "./broken-promise.js";
export { conformance, runConformance, type BoundCase, type Runner } from "./conformance.js";
export type { Direction } from "./fault-proxy-tally.js";
export {
  faultProxy,
  type FaultProxy,
  type FaultProxyCounts,
  type FaultProxyOptions,
} from "./fault-proxy.js";
export {
  withFaults,
  type Fault,
  type FaultPlan,
  type FaultyBackend,
  type Operation,
  type SeenCall,
} from "./faults.js";
export { simulatedRuntime, type Simulation, type SimulationOptions } from "./simulated-runtime.js";
export {
  realTime,
  type AnyBackend,
  type AnyTenure,
  type Subject,
  type SubjectStore,
  type SubjectTime,
} from "./subject.js";
