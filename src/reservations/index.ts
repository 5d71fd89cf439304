/** Reservations in a SQL database: the calls over a place where scripts run. */
import { checkName } from "../core/names.js";
import type { Run, When } from "../sql/script.js";
import type { Dialect } from "../sql/statement.js";
import type { CallersTx, SqlStore, Work } from "../sql/store.js";
import { checkFor, checkPlaces, checkWanted, checkWhich } from "./arguments.js";
import type { ReservationCalls, Reservations } from "./contract.js";
import * as scripts from "./scripts.js";

function callsOver<K extends When>(run: Run<K>, backend: string): ReservationCalls<K> {
  return {
    define: (item, capacity) =>
      run("define an item", () =>
        scripts.define(checkName(item, "item"), checkPlaces(capacity, "capacity", 0), backend),
      ),
    reserve: (item, holder, options) =>
      run("reserve", () => scripts.reserve(checkWanted(item, holder, options), backend)),
    confirm: (item, holder) =>
      run("confirm a reservation", () => scripts.confirm(checkWhich(item, holder), backend)),
    extend: (item, holder, options) =>
      run("extend a reservation", () =>
        scripts.extend(checkWhich(item, holder), checkFor(options), backend),
      ),
    cancel: (item, holder) =>
      run("cancel a reservation", () => scripts.cancel(checkWhich(item, holder))),
    list: (item) => run("list reservations", () => scripts.list(checkName(item, "item"))),
    available: (item) => run("count places", () => scripts.available(checkName(item, "item"))),
  };
}

/** Reservations in an opened store. */
export function reservationsIn<K extends Dialect>(store: SqlStore<K>): Reservations<K> {
  const { dialect } = store;
  return {
    ...callsOver(store.run, dialect),
    within: (tx: CallersTx<K>) => callsOver<K>(store.within(tx), dialect),
    transaction: <R>(work: Work<K, R>) => store.transaction("run work with reservations", work),
    sweep: async () => {
      let all = 0;
      for (;;) {
        const items = await store.run("look for expired reservations", scripts.itemsToSweep);
        let swept = 0;
        for (const item of items) {
          swept += await store.run("sweep reservations", () => scripts.sweepItem(item));
        }
        if (swept === 0) return all;
        all += swept;
      }
    },
    close: () => store.close(),
  };
}
