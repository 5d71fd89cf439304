/**
 * Exit codes of the command, apart from the child's own and 128 + signal.
 *
 * 64, 69, 74 and 75 are those of `sysexits.h`; 126 and 127 are a shell's; 79 is the first number
 * that neither uses.
 */
export const EXIT = {
  ok: 0,
  /** `show`: nobody holds the name. */
  free: 1,
  /** `lab`: an invariant is broken, or a run did not go as it must. */
  broken: 1,
  /** `lab check`: a line of the history is no fact. */
  malformed: 2,
  /** `lab attack`: nothing can be told from what was seen. */
  untold: 2,
  /** A flag, a value or the URL of the store is wrong; or a client library is not installed. */
  usage: 64,
  /** The store could not be asked, or its answer was lost. */
  unavailable: 69,
  /** A fault of the command itself. */
  internal: 70,
  /** The result could not be written to stdout. */
  unwritten: 74,
  /** Somebody else holds the name. */
  notAcquired: 75,
  /** The lease was lost, or that token does not hold. */
  lost: 79,
  /** The child cannot be run. */
  cannotRun: 126,
  /** There is no such child. */
  notFound: 127,
} as const;

/** Exit code for an end by signal, as shells tell it. */
export function signalExit(signalNumber: number): number {
  return 128 + signalNumber;
}
