/** One line of a timeline: characters at moments. */
export class Strip {
  readonly #cells: string[];
  readonly #blank: string;
  readonly #fromMs: number;
  readonly #toMs: number;

  constructor(width: number, fromMs: number, toMs: number, blank = "-") {
    this.#cells = new Array<string>(width).fill(blank);
    this.#blank = blank;
    this.#fromMs = fromMs;
    this.#toMs = toMs;
  }

  get text(): string {
    return this.#cells.join("");
  }

  /** Whether nothing was written. */
  get isEmpty(): boolean {
    return this.#cells.every((cell) => cell === this.#blank);
  }

  /** One character. */
  put(ms: number, cell: string): void {
    this.#cells[this.#column(ms)] = cell;
  }

  /** The same character over a time; at least one. */
  fill(fromMs: number, toMs: number, cell: string): void {
    const last = Math.max(this.#column(fromMs), this.#column(toMs) - 1);
    for (let at = this.#column(fromMs); at <= last; at++) this.#cells[at] = cell;
  }

  /** A text from a moment on, over what is there; moved to the left at the end of the line. */
  write(ms: number, text: string): void {
    const from = Math.max(0, Math.min(this.#column(ms), this.#cells.length - text.length));
    this.#type(from, text);
  }

  /** A text in the middle of a time, if there is room for it between the ends. */
  inside(fromMs: number, toMs: number, text: string): void {
    const from = this.#column(fromMs) + 1;
    const room = this.#column(toMs) - from;
    if (text.length <= room) this.#type(from + ((room - text.length) >> 1), text);
  }

  /**
   * A text from a moment on, at the first place that is free, a little later if need be; false
   * when there is none before `untilMs`.
   */
  writeFree(ms: number, text: string, untilMs: number = Infinity): boolean {
    const lastStart = this.#cells.length - text.length;
    const until = Math.max(this.#column(ms), Math.min(lastStart, this.#column(untilMs)));
    const isFree = (from: number): boolean =>
      this.#cells.slice(Math.max(0, from - 1), from + text.length).every((c) => c === this.#blank);
    for (let from = Math.min(this.#column(ms), Math.max(0, lastStart)); from <= until; from++) {
      if (from + text.length > this.#cells.length || !isFree(from)) continue;
      this.#type(from, text);
      return true;
    }
    return false;
  }

  #type(from: number, text: string): void {
    for (const [nth, cell] of [...text].entries()) {
      if (from + nth < this.#cells.length) this.#cells[from + nth] = cell;
    }
  }

  #column(ms: number): number {
    const last = this.#cells.length - 1;
    const part = (ms - this.#fromMs) / (this.#toMs - this.#fromMs);
    return Math.max(0, Math.min(last, Math.round(part * last)));
  }
}
