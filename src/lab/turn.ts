/**
 * One turn of the real event loop: between two of them the engine runs every promise reaction,
 * however long the chain, so that a simulated event has all its consequences before the next one.
 * No time is read and none is waited for. The only file of the lab that touches the real loop.
 */
import { enterTurn, leaveTurn, type TripwireError } from "./tripwires.js";

/** Taken before any wire is set. */
const realTurn = setImmediate;

/**
 * Resolves in a turn of its own, in which wires are live.
 *
 * Two callbacks that are queued together run one after the other, with nothing but the promise
 * reactions of the first between them: so the second ends the turn before a timer or a socket of
 * somebody else has its own.
 */
export function turn(tripped: (error: TripwireError) => void): Promise<void> {
  return new Promise((resolve) => {
    realTurn(() => {
      enterTurn(tripped);
      resolve();
    });
    realTurn(leaveTurn);
  });
}
