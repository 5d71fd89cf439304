/** Randomness of a simulated world: the same seed, the same draws, on every machine. */
import type { Random } from "../core/random.js";

/** A repeatable sequence (a Weyl step and a multiply-xorshift mix of 32 bits). */
export class Draws implements Random {
  #state: number;
  #ids = 0;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** A sequence of its own for one part of the world: what others draw does not move it. */
  fork(label: string): Draws {
    let mixed = this.#draw();
    for (let i = 0; i < label.length; i++)
      mixed = Math.imul(mixed ^ label.charCodeAt(i), 0x01000193);
    return new Draws(mixed);
  }

  uniform(): number {
    return this.#draw() / 0x1_0000_0000;
  }

  /** Ids are told apart by their number, and look random. */
  id(): string {
    const hex = (): string => this.#draw().toString(16).padStart(8, "0");
    return `${hex()}${hex()}-${++this.#ids}`;
  }

  /** A number in [from, to). */
  between(from: number, to: number): number {
    return from + this.uniform() * (to - from);
  }

  /** True with this probability. */
  chance(probability: number): boolean {
    return this.uniform() < probability;
  }

  /** One of several. */
  pick<E>(choices: readonly E[]): E {
    return choices[Math.floor(this.uniform() * choices.length)]!;
  }

  #draw(): number {
    this.#state = (this.#state + 0x9e3779b9) >>> 0;
    let mixed = this.#state ^ (this.#state >>> 16);
    mixed = Math.imul(mixed, 0x21f0aaad);
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97);
    return (mixed ^ (mixed >>> 15)) >>> 0;
  }
}
