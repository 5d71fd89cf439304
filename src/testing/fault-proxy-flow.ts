import type { Socket } from "node:net";
import type { Tally } from "./fault-proxy-tally.js";

/** What happens to bytes of one direction, on all connections of a proxy. */
export interface Gate {
  /** `hold` keeps the bytes until it is open again, `drop` loses them. */
  mode: "open" | "hold" | "drop";
  delayMs: number;
}

/** The end of a stream travels like bytes, and can be held, delayed and lost like them. */
type Piece = Buffer | "end";

/** One direction of one connection. */
export class Flow {
  readonly #to: Socket;
  readonly #gate: Gate;
  readonly #tally: Tally;
  readonly #sleep: (ms: number) => Promise<unknown>;
  readonly #held: Piece[] = [];
  #delayed: Promise<unknown> = Promise.resolve();
  #underway = 0;
  #hasHole = false;

  constructor(
    from: Socket,
    to: Socket,
    gate: Gate,
    tally: Tally,
    sleep: (ms: number) => Promise<unknown>,
  ) {
    this.#to = to;
    this.#gate = gate;
    this.#tally = tally;
    this.#sleep = sleep;
    from.on("data", (bytes: Buffer) => this.#arrive(bytes));
    from.on("end", () => this.#arrive("end"));
  }

  /** Whether bytes were lost: what came after them would be read wrongly. */
  get hasHole(): boolean {
    return this.#hasHole;
  }

  /** Whether news of the other side's end is to be kept from `to`. */
  get isSilent(): boolean {
    return this.#gate.mode !== "open";
  }

  /** Passes on what was held. */
  open(): void {
    for (const piece of this.#held.splice(0)) this.#arrive(piece);
  }

  #arrive(piece: Piece): void {
    // What is not delayed must still not overtake what is.
    if (this.#gate.mode !== "open" || (this.#gate.delayMs === 0 && this.#underway === 0)) {
      this.#pass(piece);
      return;
    }
    this.#underway += 1;
    const due = this.#sleep(this.#gate.delayMs);
    this.#delayed = Promise.all([this.#delayed, due]).then(() => {
      this.#underway -= 1;
      this.#pass(piece);
    });
  }

  #pass(piece: Piece): void {
    const bytes = piece === "end" ? 0 : piece.length;
    switch (this.#gate.mode) {
      case "drop":
        this.#hasHole = true;
        this.#tally.count("dropped", bytes);
        return;
      case "hold":
        this.#held.push(piece);
        return;
      case "open":
        if (!this.#to.writable) return;
        if (piece === "end") this.#to.end();
        else this.#to.write(piece);
        this.#tally.count("passed", bytes);
    }
  }
}
