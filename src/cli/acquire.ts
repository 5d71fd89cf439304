/** Acquiring as `run` and `acquire` do it. */
import { NotAcquiredError } from "../core/errors.js";
import type { Lease } from "../core/lease.js";
import type { AcquireOptions } from "../core/options.js";
import type { Tenure } from "../core/tenure.js";
import type { FencingToken } from "../core/token.js";
import { holderOf, whoHolds } from "./output.js";
import type { Holder } from "./output.js";

/** Somebody else holds the name, and the time to wait has passed. */
export class RefusedError extends Error {
  /** The holder as last seen; it may have ended since. */
  readonly held: Holder | undefined;

  constructor(name: string, held: Holder | undefined) {
    const by = held === undefined ? "" : ` by ${whoHolds(held)}`;
    super(`${JSON.stringify(name)} is held${by}`);
    this.name = "RefusedError";
    this.held = held;
  }
}

/**
 * A lease, after waiting at most `wait`; 0 is one try.
 *
 * @throws RefusedError when somebody else holds the name. What `acquire` of a tenure throws.
 */
export async function acquireOrRefuse<T extends FencingToken | undefined>(
  tenure: Tenure<T>,
  name: string,
  options: AcquireOptions,
): Promise<Lease<T>> {
  const { wait, signal: _whileWaiting, ...terms } = options;
  if (wait === 0) {
    const lease = await tenure.tryAcquire(name, terms);
    if (lease !== null) return lease;
    throw new RefusedError(name, (await tenure.inspect(name)) ?? undefined);
  }
  try {
    return await tenure.acquire(name, options);
  } catch (error) {
    if (!(error instanceof NotAcquiredError)) throw error;
    throw new RefusedError(name, error.held === undefined ? undefined : holderOf(error.held));
  }
}
