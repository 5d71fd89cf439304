/** Waiting for a free connection, no longer than somebody has patience. */
import { whenAborted, type Abortable } from "../../core/aborting.js";
import { UnavailableError } from "../../core/errors.js";

/** What is told when a pool had nothing free: nothing was sent. */
export function noneFree(): UnavailableError {
  return new UnavailableError(
    "the pool had no free connection in time: all are in use; begin fewer calls at once, or give " +
      "a pool that has more (max)",
    { backend: "postgres" },
  );
}

/** What comes in time; what comes later is given back. */
export function withinPatience<C>(
  coming: Promise<C>,
  giveBack: (late: C) => void,
  patience: Abortable | undefined,
): Promise<C> {
  return new Promise<C>((resolve, reject) => {
    let isOver = false;
    const end = (): void => {
      isOver = true;
      reject(noneFree());
    };
    // Shared by all calls that began at about the same time.
    const unlisten = whenAborted(patience, end);
    coming.then(
      (come) => {
        unlisten();
        if (isOver) giveBack(come);
        else resolve(come);
      },
      (error: unknown) => {
        unlisten();
        reject(error);
      },
    );
  });
}
