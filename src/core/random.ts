/** Randomness as the core sees it. Interface only; see `clock.ts`. */
export interface Random {
  /** A number in [0, 1): jitter. */
  uniform(): number;
  /** A fresh id with at least 122 random bits, 1 to 64 characters of [A-Za-z0-9_-]: a holder. */
  id(): string;
}
