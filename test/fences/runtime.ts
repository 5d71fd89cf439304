import type { TenureEvent } from "../../src/core/events.js";
import type { FenceRuntime } from "../../src/fences/contract.js";
import { platform } from "../../src/platform/index.js";

/** The real runtime, its events kept in a list. */
export function testRuntime(): { readonly runtime: FenceRuntime; readonly events: TenureEvent[] } {
  const events: TenureEvent[] = [];
  const { clock, timers, random } = platform();
  const sink = { wants: () => true, publish: (event: TenureEvent) => void events.push(event) };
  return { runtime: { clock, timers, random, events: sink }, events };
}
