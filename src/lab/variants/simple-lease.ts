/** A lease of the small lock: counts its own time and renews itself, one request at a time. */
import type { Grant } from "../../core/backend.js";
import { validityMs } from "../../core/deadline.js";
import { parseDuration } from "../../core/duration.js";
import { LeaseLostError, OutcomeUnknownError, TenureError } from "../../core/errors.js";
import type { Lease, LeaseState } from "../../core/lease.js";
import type { FencingToken } from "../../core/token.js";
import { call, CALL_MS, elapsed, type LockParts } from "./simple-calls.js";

type Token = FencingToken | undefined;

const PILE_EVERY_MS = 100;

/** See the head of this file. */
export class SimpleLease implements Lease<Token> {
  readonly #grant: Grant<Token>;
  readonly #parts: LockParts;
  readonly #controller = new AbortController();
  #token: Token;
  #baseMs: number;
  #end: "lost" | "released" | undefined;

  constructor(grant: Grant<Token>, baseMs: number, parts: LockParts) {
    this.#grant = grant;
    this.#token = grant.token;
    this.#baseMs = baseMs;
    this.#parts = parts;
    void this.#keep();
  }

  get name(): string {
    return this.#grant.name;
  }

  get token(): Token {
    return this.#token;
  }

  get holder(): string {
    return this.#grant.holder;
  }

  get storeId(): string {
    return this.#parts.backend.storeId;
  }

  get storeEpoch(): string | undefined {
    return this.#grant.storeEpoch;
  }

  get ttlMs(): number {
    return this.#grant.ttlMs;
  }

  get state(): LeaseState {
    if (this.#end === undefined && this.#leftMs() <= 0) this.#lose("deadline");
    return this.#end ?? "held";
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  remaining(): number {
    return this.state === "held" ? this.#leftMs() : 0;
  }

  assertHeld(minMs = 0): void {
    const left = this.remaining();
    if (this.#end !== undefined || left < parseDuration(minMs, "minMs", { zero: true })) {
      throw this.#lost("deadline");
    }
  }

  async renew(): Promise<void> {
    await this.#renewOnce();
    this.assertHeld();
  }

  async release(): Promise<"released" | "not-held"> {
    this.#end ??= "released";
    const { name, holder, token } = this.#grant;
    const whole = token === undefined ? { name, holder } : { name, holder, token };
    const { backend, process } = this.#parts;
    const [answer] = await call(process, CALL_MS, (bound) => backend.release([whole], bound));
    if (answer === undefined || answer === "unknown") throw new OutcomeUnknownError("release");
    return answer;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release();
  }

  #leftMs(): number {
    const { flaw, process } = this.#parts;
    if (flaw === "no-local-deadline" || flaw === "token-re-read") return this.ttlMs;
    return validityMs(this.ttlMs) - (elapsed(process) - this.#baseMs);
  }

  async #keep(): Promise<void> {
    const { process, flaw } = this.#parts;
    const piles = flaw === "renew-pile-up";
    for (;;) {
      await process.sleep(piles ? PILE_EVERY_MS : this.ttlMs / 3);
      if (this.state !== "held") return;
      const renewing = this.#renewOnce();
      if (!piles) await renewing;
    }
  }

  async #renewOnce(): Promise<void> {
    const { backend, process, flaw } = this.#parts;
    const sentMs = elapsed(process);
    try {
      if (flaw === "token-re-read") {
        const seen = await call(process, CALL_MS, (bound) => backend.inspect(this.name, bound));
        this.#token = (seen?.token ?? this.#token) as Token;
      }
      const [answer] = await call(process, this.ttlMs / 3, (bound) =>
        backend.renew([this.#grant], bound),
      );
      if (answer === "renewed") {
        this.#baseMs = flaw === "deadline-from-reply" ? elapsed(process) : sentMs;
      } else if (typeof answer === "object" && flaw !== "token-re-read") {
        this.#lose(answer.lost === "absent" ? "absent" : "taken");
      }
    } catch (error) {
      if (!(error instanceof TenureError)) throw error;
    }
  }

  #lose(reason: "deadline" | "absent" | "taken"): void {
    if (this.#end !== undefined) return;
    this.#end = "lost";
    this.#controller.abort(this.#lost(reason));
  }

  #lost(reason: "deadline" | "absent" | "taken"): LeaseLostError {
    return new LeaseLostError(`${this.name} was lost: ${reason}`, { lock: this.name, reason });
  }
}
