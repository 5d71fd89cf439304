import { OutcomeUnknownError, UnavailableError } from "../../src/core/errors.js";
import type { FenceCall, FenceStore, Ran, Work } from "../../src/fences/contract.js";
import type { FenceRequest, Verdict } from "../../src/fences/decide.js";

/**
 * What the wire does to one request: `lose` the request, the `reply`, or hold it back (`late`);
 * `twice` delivers it again for its reply, `behind` first what was held back.
 */
export type Fault = "lose" | "reply" | "late" | "unavailable" | "twice" | "behind";

/** A bad network between handles and their store. */
export interface Wire<Tx, Read> {
  readonly store: FenceStore<Tx, Read>;
  /** The next request of this kind suffers the fault; called twice, the next two do. */
  fault(op: FenceRequest["op"], fault: Fault): void;
  /** Delivers what was held back, again each time it is called. */
  deliver(): Promise<void>;
  /** All requests that reached the store or were lost, in order. */
  readonly sent: FenceRequest[];
}

/** Puts a wire in front of a store. */
export function wire<Tx, Read>(store: FenceStore<Tx, Read>): Wire<Tx, Read> {
  const faults: { op: FenceRequest["op"]; fault: Fault }[] = [];
  const held: (() => Promise<unknown>)[] = [];
  const sent: FenceRequest[] = [];

  const deliver = async (): Promise<void> => {
    for (const step of held) await step();
  };

  async function send<T>(request: FenceRequest, step: () => Promise<T>): Promise<T> {
    sent.push(request);
    const index = faults.findIndex(({ op }) => op === request.op);
    const fault = index < 0 ? undefined : faults.splice(index, 1)[0]?.fault;
    if (fault === "twice") await step();
    if (fault === "behind") await deliver();
    if (fault === undefined || fault === "twice" || fault === "behind") return await step();
    if (fault === "unavailable") throw new UnavailableError("the wire is cut");
    if (fault === "late") held.push(step);
    if (fault === "reply") await step();
    throw new OutcomeUnknownError("no reply");
  }

  return {
    sent,
    fault: (op, fault) => faults.push({ op, fault }),
    deliver,
    store: {
      kind: store.kind,
      work: store.work,
      load: (resource, call) => store.load(resource, call),
      rebase: (request, call) => store.rebase(request, call),
      arm: (request: FenceRequest, call: FenceCall): Promise<Verdict> =>
        send(request, () => store.arm(request, call)),
      read: <R>(request: FenceRequest, work: Work<Read, R>, call: FenceCall): Promise<Ran<R>> =>
        send(request, () => store.read(request, work, call)),
      write: <R>(request: FenceRequest, work: Work<Tx, R>, call: FenceCall): Promise<Ran<R>> =>
        send(request, () => store.write(request, work, call)),
    },
  };
}
