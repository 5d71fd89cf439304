/** Options that count something. */
import { ArgumentRangeError, ArgumentTypeError } from "../core/errors.js";

/** A whole number from 1 to `most`. @throws TypeError or RangeError naming option and value. */
export function wholeNumber(value: unknown, option: string, most: number): number {
  if (typeof value !== "number") throw new ArgumentTypeError(option, value, "a whole number");
  if (!Number.isInteger(value) || value < 1 || value > most) {
    throw new ArgumentRangeError(option, value, `a whole number from 1 to ${most}`);
  }
  return value;
}
