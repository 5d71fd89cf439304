/** A process that reserves; each grant is a row of `grants`, in the same transaction. */
import { reservations, type Reservations } from "../../../src/reservations/open.js";
import { serve } from "../serve.js";
import { withWallClockOff } from "../wrong-clock.js";

interface Opening {
  readonly target: { readonly url: string; readonly options: { readonly schema?: string } };
}

interface Wish {
  readonly item: string;
  readonly forMs: number;
  readonly capacity: number;
  /** Gives back at once what it got. */
  readonly ends?: boolean;
  readonly times: number;
}

let r: Reservations<any>;
let dialect = "";
let count = 0;

/** Reserves or cancels, and logs what the store has about it, in one transaction. */
async function change(
  make: (inside: any) => any,
  isDone: (answer: any) => boolean,
  text: string,
  values: readonly unknown[],
): Promise<boolean> {
  if (dialect === "sqlite") {
    return await r.transaction((tx: any) => {
      if (!isDone(make(r.within(tx)))) return false;
      tx.run(text, ...values);
      return true;
    });
  }
  return await r.transaction(async (tx: any) => {
    if (!isDone(await make(r.within(tx)))) return false;
    let n = 0;
    await tx.query(dialect === "postgres" ? text.replaceAll("?", () => `$${++n}`) : text, values);
    return true;
  });
}

const reserve = (item: string, holder: string, { forMs, capacity }: Wish): Promise<boolean> =>
  change(
    (inside) => inside.reserve(item, holder, { for: forMs, capacity }),
    (answer) => answer !== null,
    `INSERT INTO grants (kind, item, holder, at_ms, held_until)
       SELECT 'in', item, holder, held_until - ${forMs}, held_until
       FROM ${dialect === "postgres" ? "reservation" : "tenure_reservation"}
       WHERE item = ? AND holder = ?`,
    [item, holder],
  );

const cancel = (item: string, holder: string): Promise<boolean> =>
  change(
    (inside) => inside.cancel(item, holder),
    (answer) => answer === true,
    "INSERT INTO grants (kind, item, holder) VALUES ('out', ?, ?)",
    [item, holder],
  );

/** It met others. */
function didNotHappen(error: Error): null {
  if (error.name === "UnavailableError") return null;
  throw error;
}

serve({
  async open({ target: { url, options } }: Opening) {
    dialect = url.slice(0, url.indexOf(":"));
    // Some are an hour early, some an hour late.
    const runtime = withWallClockOff(((process.pid % 3) - 1) * 3_600_000);
    // A SQLite file, which serves nobody in turn, can be taken for long where so many want it.
    r = await reservations(url as any, { ...options, runtime, timeout: "60s" });
  },
  async wish(wish: Wish) {
    const holders: string[] = [];
    let refused = 0;
    for (let i = 0; i < wish.times; i++) {
      const holder = `${process.pid}/${count++}`;
      const got = await reserve(wish.item, holder, wish).catch(didNotHappen);
      if (got === false) refused += 1;
      if (got !== true) continue;
      holders.push(holder);
      if (wish.ends) await cancel(wish.item, holder).catch(didNotHappen);
    }
    return { holders, refused };
  },
});
