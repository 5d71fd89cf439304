import { afterEach } from "vitest";
import type { TenureEvent } from "../../src/core/events.js";
import type { ArmedHandle, Fence, FenceStore, OnStale } from "../../src/fences/contract.js";
import { createFence } from "../../src/fences/fence.js";
import { bearer } from "./bearers.js";
import { testRuntime } from "./runtime.js";
import { wire, type Wire } from "./wire.js";

/** One kind of fence, with a number as the value of each resource. */
export interface Subject<Tx, Read> {
  readonly name: string;
  /** What becomes of work that returns a promise. */
  readonly work: "sync" | "async";
  open(): Promise<OpenSubject<Tx, Read>>;
}

export interface OpenSubject<Tx, Read> {
  readonly store: FenceStore<Tx, Read>;
  get(tx: Read, resource: string): number | undefined | PromiseLike<number | undefined>;
  put(tx: Tx, resource: string, value: number): void;
  /** Where a write cannot read before it writes. Default: `get`, then `put`. */
  add?(tx: Tx, resource: string, amount: number): PromiseLike<number>;
  /** Loses the mark, as a restored backup or a careless hand does. */
  loseMark(resource: string): Promise<void>;
  close(): Promise<void>;
}

/** A fence behind a wire, and what a test does with it. */
export interface Bench<Tx, Read, S extends OnStale> {
  readonly fence: Fence<Tx, Read, S>;
  readonly wire: Wire<Tx, Read>;
  readonly events: TenureEvent[];
  readonly subject: OpenSubject<Tx, Read>;
  arm(token: bigint, holder?: string, resource?: string): Promise<Account<Tx, Read, S>>;
  value(resource?: string): Promise<number | undefined>;
}

/** A handle whose value is a number. */
export interface Account<Tx, Read, S extends OnStale> {
  readonly handle: ArmedHandle<Tx, Read, S>;
  get(): Promise<number | undefined>;
  put(value: number): Promise<unknown>;
  add(amount: number): Promise<unknown>;
}

/** Opens benches, and closes them after each test. */
export function benches<Tx, Read>(subject: Subject<Tx, Read>): OpenBench<Tx, Read> {
  const open: OpenSubject<Tx, Read>[] = [];
  afterEach(async () => {
    for (const one of open.splice(0)) await one.close();
  });
  return (onStale) => openBench(subject, open, onStale);
}

/** Opens a bench with its own store. */
export type OpenBench<Tx, Read> = <S extends OnStale = "reject">(
  onStale?: S,
) => Promise<Bench<Tx, Read, S>>;

async function openBench<Tx, Read, S extends OnStale>(
  subject: Subject<Tx, Read>,
  open: OpenSubject<Tx, Read>[],
  onStale: S | undefined,
): Promise<Bench<Tx, Read, S>> {
  const opened = await subject.open();
  open.push(opened);
  const { runtime, events } = testRuntime();
  const cable = wire(opened.store);
  const options = onStale === undefined ? {} : { onStale };
  const fence = createFence<Tx, Read, S>(cable.store, runtime, options);
  const account = (handle: ArmedHandle<Tx, Read, S>): Account<Tx, Read, S> => ({
    handle,
    get: () => handle.read((tx) => opened.get(tx, handle.resource)),
    put: (value) => handle.write((tx) => opened.put(tx, handle.resource, value)),
    add: (amount) =>
      handle.write((tx): number | PromiseLike<number> => {
        if (opened.add !== undefined) return opened.add(tx, handle.resource, amount);
        const before = Number(opened.get(tx as unknown as Read, handle.resource) ?? 0);
        opened.put(tx, handle.resource, before + amount);
        return before + amount;
      }),
  });
  return {
    fence,
    wire: cable,
    events,
    subject: opened,
    arm: async (token, holder, resource = "r") => {
      const lease = bearer(token, holder === undefined ? {} : { holder });
      return account(await fence.arm(lease, resource));
    },
    // A look past the mark, at what the resource holds.
    value: async (resource = "r") => {
      const mark = await fence.mark(resource);
      if (mark === null) return undefined;
      const ran = await opened.store.read(
        { op: "read", resource, ...mark },
        (tx) => opened.get(tx, resource),
        { signal: undefined, remainingMs: () => Infinity },
      );
      return ran.accepted ? ran.result : undefined;
    },
  };
}
