import { randomUUID } from "node:crypto";
import { hostname } from "node:os";
import type { Runtime } from "../core/runtime.js";
import { diagnosticsChannels } from "./channels.js";
import { machineClock, machineTimers } from "./clocks.js";
import { machinePauses } from "./pauses.js";

let shared: Runtime | undefined;

/** The real world: this machine's clocks, timers, randomness and diagnostics channels. */
export function platform(): Runtime {
  shared ??= {
    clock: machineClock(),
    timers: machineTimers,
    random: { uniform: Math.random, id: randomUUID },
    events: diagnosticsChannels,
    pauses: machinePauses(),
    holderInfo: { host: hostname(), pid: process.pid },
  };
  return shared;
}
