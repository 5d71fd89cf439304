/** A signal that knows who listens to it: what a process hands to every call, and never aborts. */

/** A signal, and how many listen to it. */
export interface HeardSignal {
  readonly signal: AbortSignal;
  /** Listeners that were added and neither removed nor told to leave by a signal of their own. */
  readonly listeners: number;
}

type Listen = AbortSignal["addEventListener"];

/** A signal whose listeners are counted. */
export function heardSignal(): HeardSignal {
  const { signal } = new AbortController();
  const heard = new Set<unknown>();
  const add: Listen = signal.addEventListener.bind(signal);
  const remove: Listen = signal.removeEventListener.bind(signal);
  const listen = (...[type, listener, options]: Parameters<Listen>): void => {
    heard.add(listener);
    const until = typeof options === "object" ? options.signal : undefined;
    until?.addEventListener("abort", () => heard.delete(listener), { once: true });
    add(type, listener, options);
  };
  const leave = (...[type, listener, options]: Parameters<Listen>): void => {
    heard.delete(listener);
    remove(type, listener, options);
  };
  Object.defineProperty(signal, "addEventListener", { value: listen });
  Object.defineProperty(signal, "removeEventListener", { value: leave });
  return {
    signal,
    get listeners() {
      return heard.size;
    },
  };
}
