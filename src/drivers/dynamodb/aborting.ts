/**
 * One listener on a caller's signal, however many requests it bounds: a signal with more than ten
 * is taken for a leak, and a batch of renewals has more requests than that.
 */

/** What one request is ended by. */
export interface Bounded {
  readonly signal: AbortSignal;
  /** Nobody waits for it any more. */
  end(): void;
  /** The request is over. */
  done(): void;
}

const groups = new WeakMap<AbortSignal, Set<AbortController>>();

/** A signal of its own for one request, which aborts with `parent`. */
export function boundedBy(parent: AbortSignal): Bounded {
  const controller = new AbortController();
  if (parent.aborted) controller.abort(parent.reason);
  const group = groups.get(parent) ?? new Set();
  if (!groups.has(parent)) {
    groups.set(parent, group);
    const abortAll = (): void => {
      for (const each of group) each.abort(parent.reason);
    };
    parent.addEventListener("abort", abortAll, { once: true });
  }
  group.add(controller);
  return {
    signal: controller.signal,
    end: () => controller.abort(),
    done: () => void group.delete(controller),
  };
}
