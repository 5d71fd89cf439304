/** The size of the races of these tests; the environment says otherwise for a longer look. */

/** How long they go on, milliseconds. */
export const RACE_MS: number = Number(process.env["RACE_MS"] ?? 2_500);

/** Longest that one may take, its processes' start included, on a machine that has much to do. */
export const RACE_TIMEOUT_MS = 400_000;

/** How many processes take part. */
export const RACERS: number = Number(process.env["RACERS"] ?? 50);

/** Says how a race went, to those who asked for a longer one. */
export function tell(title: string, raced: object): void {
  if (process.env["RACE_MS"] !== undefined) console.log(title, JSON.stringify(raced));
}

/** How often each of 50 writers writes. */
export const WRITES: number = Number(process.env["WRITES"] ?? 3);
