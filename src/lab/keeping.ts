/** A client that only holds a lease, and looks at it now and then: for what happens to leases. */
import { Hand, refusalOf, type HandOptions } from "./hand.js";
import type { Client, Simulation } from "./simulation.js";

/** How it holds. Milliseconds, on the client's own clock. */
export interface KeepOptions extends HandOptions {
  /** How long, unless it is lost before. */
  readonly forMs: number;
  /** Between two looks. Default 250. */
  readonly lookEveryMs?: number;
}

/** Holds a lease, notes what it believes, and gives it back. Answers its last state before that. */
export async function keep(
  sim: Simulation,
  client: Client,
  { forMs, lookEveryMs = 250, ...options }: KeepOptions,
): Promise<string> {
  const { process } = client;
  const hand = await Hand.take(sim, client, options);
  let state = hand.look();
  const endMs = process.runtime.clock.monotonicMs() + forMs;
  while (state !== "lost" && process.runtime.clock.monotonicMs() < endMs) {
    await process.sleep(lookEveryMs);
    state = hand.look();
  }
  await refusalOf(hand.release());
  return state;
}
