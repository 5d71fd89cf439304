/**
 * A small lock of its own over the same backends as the core's, for what is wrong inside a client
 * and cannot be put around the core. Without a flaw it keeps what the core promises where its
 * variants are caught; it has no batches, no queue, no sessions, and polls where it is not told.
 */
import type { Call, Grant, Held, HolderInfo } from "../../core/backend.js";
import { parseDuration } from "../../core/duration.js";
import { TenureError } from "../../core/errors.js";
import type { Lease } from "../../core/lease.js";
import type { FencingToken } from "../../core/token.js";
import type { SimulatedProcess } from "../process.js";
import type { Lock } from "../worker.js";
import { call, CALL_MS, elapsed, limited, type LockParts } from "./simple-calls.js";
import { SimpleLease } from "./simple-lease.js";

type Token = FencingToken | undefined;

const POLL_MS = 500;
const FALLBACK_MS = 5_000;
const NEVER_MS = 1e9;

/** Leases of one process. */
export class SimpleLock implements Lock {
  readonly #parts: LockParts;

  constructor(parts: LockParts) {
    this.#parts = parts;
  }

  async acquire(
    name: string,
    options: Parameters<Lock["acquire"]>[1] = {},
  ): Promise<Lease<Token>> {
    const { process } = this.#parts;
    const waitMs = parseDuration(options.wait ?? 60_000, "wait");
    const want: Want = {
      name,
      holder: process.runtime.random.id(),
      ttlMs: parseDuration(options.ttl ?? 30_000, "ttl"),
      untilMs: elapsed(process) + waitMs,
      holderInfo: process.runtime.holderInfo,
      isOver: false,
    };
    try {
      return await limited(process, waitMs, this.#contend(want));
    } catch (error) {
      want.isOver = true;
      this.#clean(want);
      throw error;
    }
  }

  async #contend(want: Want): Promise<Lease<Token>> {
    const { backend, flaw, process } = this.#parts;
    const alert = new Alert(process);
    const { waiting } = backend;
    const tells = waiting.kind === "notify";
    let subscription: AsyncDisposable | undefined;
    const subscribe = async (): Promise<void> => {
      if (!tells || subscription !== undefined) return;
      subscription = await call(process, CALL_MS, (bound) =>
        waiting.subscribe(want.name, () => alert.ring(), bound),
      ).catch(() => undefined);
    };
    try {
      for (;;) {
        if (flaw !== "lost-wake") await subscribe();
        const answer = await this.#try(want);
        if (answer instanceof SimpleLease) return answer;
        await subscribe();
        const relies = flaw === "lost-wake" || flaw === "no-fallback-poll";
        const restMs = !tells ? POLL_MS : relies ? NEVER_MS : FALLBACK_MS;
        const leftMs = relies ? NEVER_MS : (answer?.leftMs ?? NEVER_MS) + 5;
        await alert.wait(Math.min(restMs, leftMs));
      }
    } finally {
      await subscription?.[Symbol.asyncDispose]();
    }
  }

  /** A lease, who holds, or undefined where no answer came. */
  async #try(want: Want): Promise<SimpleLease | Held | undefined> {
    const { backend, process, flaw } = this.#parts;
    const { name, holder, ttlMs, holderInfo } = want;
    const sentMs = elapsed(process);
    const asking = (bound: Call): Promise<{ grant: Grant<Token> } | { held: Held }> =>
      Promise.resolve(backend.acquire({ name, holder, ttlMs, holderInfo }, bound));
    const keep = (grant: Grant<Token>): SimpleLease => {
      const fromMs = flaw === "deadline-from-reply" ? elapsed(process) : sentMs;
      return new SimpleLease(grant, fromMs, this.#parts);
    };
    const answer = await call(process, CALL_MS, async (bound) => {
      const got = await asking(bound);
      // Its waiter has gone, and here it is.
      if (want.isOver && "grant" in got && flaw === "leak-on-cancel") keep(got.grant);
      return got;
    }).catch((error: unknown) => {
      if (error instanceof TenureError) return undefined;
      throw error;
    });
    if (answer === undefined || want.isOver) return undefined;
    if ("held" in answer) return answer.held;
    const lease = keep(answer.grant);
    if (lease.state === "held") return lease;
    this.#clean(want);
    want.holder = process.runtime.random.id();
    return undefined;
  }

  /** Releases what may have been granted, until the store has answered or its time is over. */
  #clean({ name, holder, ttlMs }: Want): void {
    const { backend, process, flaw } = this.#parts;
    if (flaw === "leak-on-cancel") return;
    const untilMs = elapsed(process) + ttlMs;
    const ask = async (): Promise<void> => {
      while (elapsed(process) < untilMs) {
        try {
          await call(process, CALL_MS, (bound) => backend.release([{ name, holder }], bound));
          return;
        } catch {
          await process.sleep(POLL_MS);
        }
      }
    };
    void ask();
  }
}

interface Want {
  readonly name: string;
  holder: string;
  readonly ttlMs: number;
  readonly untilMs: number;
  readonly holderInfo: HolderInfo;
  isOver: boolean;
}

/** Something that may ring while nobody listens. */
class Alert {
  readonly #process: SimulatedProcess;
  #rang = false;
  #wake: (() => void) | undefined;

  constructor(process: SimulatedProcess) {
    this.#process = process;
  }

  ring(): void {
    this.#rang = true;
    this.#wake?.();
  }

  async wait(restMs: number): Promise<void> {
    if (!this.#rang) {
      await new Promise<void>((resolve) => {
        const timer = this.#process.runtime.timers.after(restMs, resolve);
        this.#wake = () => {
          timer.cancel();
          resolve();
        };
      });
    }
    this.#rang = false;
  }
}
