/** Waiting for a free connection, no longer than somebody has patience. */
import { whenAborted, type Abortable } from "../../core/aborting.js";
import type { UnavailableError } from "../../core/errors.js";
import { noneFree } from "../connecting.js";

/** What is told when a pool had nothing free. */
export function noneFreePostgres(): UnavailableError {
  return noneFree("postgres", "max");
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
      reject(noneFreePostgres());
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
