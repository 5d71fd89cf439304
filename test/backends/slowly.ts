import { setTimeout as sleep } from "node:timers/promises";
import type { FaultProxy } from "../../src/testing/fault-proxy.js";

/** Longer than a connection to a SQL server may take where nobody waits longer. */
const SLOW_MS = 5_300;

/** Does what makes a connection, over a network that lets it wait for so long. */
export async function slowly<R>(proxy: FaultProxy, work: () => Promise<R>): Promise<R> {
  proxy.hold();
  const made = proxy.connected();
  const result = work();
  await made;
  await sleep(SLOW_MS);
  await proxy.heal();
  return result;
}
