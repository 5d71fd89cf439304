/** Asking one server of an ensemble for a connection. */
import { openConnection, type SessionKey, type Wiring } from "./connection.js";
import type { Address } from "./hosts.js";

/** Longest wait for one server to greet, milliseconds; less for a short session. */
export const GREET_MS = 2_000;

/**
 * How long a server has to answer the greeting. In the first round little, so that a frozen one
 * costs a short session little; twice as long in each further one, since all may be slow, or far.
 */
export function greetMs({ timeoutMs }: SessionKey, round: number): number {
  return Math.min(GREET_MS, Math.max(100, timeoutMs / 3) * 2 ** round);
}

/** As `openConnection`, at the server whose turn it is. */
export function greet(
  wiring: Wiring,
  order: readonly Address[],
  next: number,
  asked: SessionKey & { readonly lastZxid: bigint },
  limitMs: number,
): ReturnType<typeof openConnection> {
  return openConnection(order[next % order.length]!, asked, wiring, limitMs);
}
