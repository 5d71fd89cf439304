/** Looking at the leases of others. */
import type { Backend, Held, HolderInfo } from "./backend.js";
import type { Calls } from "./call.js";
import type { FencingToken } from "./token.js";

/** The live lease of a name, as the store shows it. */
export interface Inspection {
  readonly name: string;
  readonly holder: string | undefined;
  readonly holderInfo: HolderInfo | undefined;
  readonly token: bigint | undefined;
  /** Milliseconds until the store lets go, where it can say. */
  readonly expiresInMs?: number;
  /** Waiters in the store's queue, where there is one. */
  readonly waiters?: number;
}

/** A held record as `inspect` and `list` tell it. */
export function inspection(name: string, held: Held): Inspection {
  const { holder, holderInfo, token, leftMs, waiters } = held;
  return {
    name,
    holder,
    holderInfo,
    token,
    ...(leftMs === undefined ? {} : { expiresInMs: leftMs }),
    ...(waiters === undefined ? {} : { waiters }),
  };
}

/** Live leases with a prefix; each step to the store is bounded in time. */
export async function* listed(
  backend: Backend<FencingToken | undefined>,
  calls: Calls,
  prefix: string,
): AsyncGenerator<Inspection, void, undefined> {
  let found: AsyncIterator<Held & { readonly name: string }> | undefined;
  try {
    for (;;) {
      const step = await calls.run("list", undefined, (call) => {
        found ??= backend.list(prefix, call)[Symbol.asyncIterator]();
        return found.next();
      });
      if (step.done === true) return;
      yield inspection(step.value.name, step.value);
    }
  } finally {
    await found?.return?.();
  }
}
