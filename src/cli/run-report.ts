/** What `run`, `elect` and `cron` tell on stderr. The child's stdout is never touched. */
import type { LeaseLostError } from "../core/errors.js";
import { readable, say, sayJson, whoHolds } from "./output.js";
import type { Holder } from "./output.js";

/** Facts of a lease that a script may want. */
interface LeaseFacts {
  readonly name: string;
  readonly token: bigint | undefined;
  readonly holder: string;
  readonly ttlMs: number;
}

/** One line per event: JSON for programs; for people only what they must know. */
export class RunReport {
  readonly #json: boolean;
  readonly #name: string;
  #isSilent = false;

  constructor(name: string, json: boolean) {
    this.#name = name;
    this.#json = json;
  }

  granted({ name, token, holder, ttlMs }: LeaseFacts, waitedMs: number): void {
    this.#tell({ event: "granted", name, token, holder, ttlMs, waitedMs: Math.round(waitedMs) });
  }

  /** A schedule has begun. */
  scheduled(cron: string): void {
    this.#tell({ event: "scheduled", name: this.#name, cron });
  }

  /** A fire is this process's to run. */
  fired({ name, token, holder, ttlMs }: LeaseFacts, fire: string, tries: number): void {
    this.#isSilent = false;
    this.#tell({ event: "fired", name, fire, token, holder, ttlMs, tries });
  }

  /** The command of a fire did not end well; the schedule goes on. */
  fireFailed(fire: string, why: string): void {
    this.#tell({ event: "fire-failed", name: this.#name, fire, why }, `${fire}: ${why}`);
  }

  /** A candidacy has begun. */
  standing(): void {
    this.#tell({ event: "standing", name: this.#name });
  }

  elected({ name, token: term, holder, ttlMs }: LeaseFacts): void {
    this.#isSilent = false;
    this.#tell({ event: "elected", name, term, holder, ttlMs });
  }

  /** The store did not answer a candidate, which goes on asking; told once per candidacy. */
  silent(error: unknown): void {
    if (this.#isSilent) return;
    this.#isSilent = true;
    const message = error instanceof Error ? error.message : String(error);
    this.#tell(
      { event: "unavailable", name: this.#name, message },
      `the store is unavailable, asking again: ${message}`,
    );
  }

  listening(port: number): void {
    this.#tell({ event: "listening", port }, `answering on 127.0.0.1:${port}`);
  }

  started(pid: number): void {
    this.#tell({ event: "started", pid });
  }

  notAcquired(held: Holder | undefined): void {
    const by = held === undefined ? "" : ` by ${whoHolds(held)}`;
    this.#tell({ event: "not-acquired", name: this.#name, held }, `${this.#quoted} is held${by}`);
  }

  proceeding(error: unknown): void {
    const message = error instanceof Error ? error.message : String(error);
    this.#tell(
      { event: "proceeded", name: this.#name, message },
      `running without a lease, the store is unavailable: ${message}`,
    );
  }

  lost({ reason, message }: LeaseLostError): void {
    this.#tell(
      { event: "lost", name: this.#name, reason, message },
      `stopping the command: ${message}`,
    );
  }

  /** The guard stopped the child before the wrapper knew that the lease had ended. */
  stopped(): void {
    this.#tell(
      { event: "lost", name: this.#name, reason: "deadline" },
      `the command was stopped: the lease of ${this.#quoted} was not renewed in time`,
    );
  }

  /** The command had ended; the store had no lease any more, though its time was not over. */
  removed(): void {
    this.#tell(
      { event: "lost", name: this.#name, reason: "absent" },
      `the lease of ${this.#quoted} was taken away before the command ended`,
    );
  }

  failed(message: string, exitCode: number): void {
    this.#tell({ event: "failed", name: this.#name, message, exitCode }, message);
  }

  /** `exitCode` is undefined where the end of the command is not the end of all. */
  ended(code: number | null, signal: string | null, exitCode: number | undefined): void {
    this.#tell({ event: "ended", code, signal, exitCode });
  }

  keeping(forMs: number): void {
    this.#tell({ event: "keeping", name: this.#name, forMs: Math.round(forMs) });
  }

  notKept(): void {
    this.#tell(
      { event: "not-kept", name: this.#name },
      `the lease of ${this.#quoted} was lost before --at-least had passed`,
    );
  }

  left(ttlMs: number): void {
    this.#tell(
      { event: "left", name: this.#name, ttlMs },
      `the lease of ${this.#quoted} is left to run out, within ${readable(ttlMs)}`,
    );
  }

  released(answer: "released" | "not-held"): void {
    this.#tell({ event: "released", name: this.#name, answer });
  }

  notReleased(error: unknown, ttlMs: number): void {
    const message = error instanceof Error ? error.message : String(error);
    this.#tell(
      { event: "not-released", name: this.#name, message },
      `the lease of ${this.#quoted} was not given back (${message}); ` +
        `it runs out within ${readable(ttlMs)}`,
    );
  }

  get #quoted(): string {
    return JSON.stringify(this.#name);
  }

  #tell(event: Readonly<Record<string, unknown>>, words?: string): void {
    if (this.#json) sayJson(event);
    else if (words !== undefined) say(words);
  }
}
