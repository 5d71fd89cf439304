/** What goes wrong in callers' own functions is told, with what it was about, or is a warning. */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { expect, it, onTestFinished } from "vitest";
import { outbox } from "../../src/outbox/open.js";
import { queue } from "../../src/queue/open.js";
import { schedule } from "../../src/schedule/open.js";
import { onStores, type Spot } from "./stores.js";
import { until } from "./until.js";

const fail = (): never => {
  throw new Error("bad card");
};

/** Warnings from here on, by name and text. */
function warnings(): string[] {
  const heard: string[] = [];
  const hear = (event: unknown): void => {
    const { name, message } = event as { name: string; message: string };
    heard.push(`${name}: ${message}`);
  };
  subscribe("tenure:warning", hear);
  onTestFinished(() => void unsubscribe("tenure:warning", hear));
  return heard;
}

type Told = (error: unknown, about?: object) => void;

/** Each runs until the test ends, with `onError` where one is given. */
const FAILING: Readonly<Record<string, (spot: Spot, onError?: Told) => Promise<void>>> = {
  async queue(spot, onError) {
    const q: any = await spot.open((target, more) => queue(target, { ...more, name: "mails" }));
    await q.add({ key: "k", payload: 1, id: "j1" });
    void q.work(fail, onError === undefined ? {} : { onError });
  },
  async outbox(spot, onError) {
    const o: any = await spot.open((target, more) => outbox(target, more));
    await spot.begin((tx) => o.write(tx, { key: "k", topic: "t", payload: 1, id: "m1" }));
    void o.relay(fail, onError === undefined ? {} : { onError });
  },
  async schedule(spot, onError) {
    const options = { ...spot.options, ...(onError === undefined ? {} : { onError }) };
    const s = await schedule(spot.target, "report", "* * * * * *", fail, options);
    onTestFinished(() => s.close());
  },
};
const ABOUT: Readonly<Record<string, object>> = {
  queue: { id: "j1", key: "k", tries: 1 },
  outbox: { id: "m1", key: "k", topic: "t", tries: 0 },
  schedule: { tries: 1 },
};
const NAMES: Readonly<Record<string, string>> = {
  queue: "mails",
  outbox: "outbox",
  schedule: "report",
};

onStores(
  "what a function of the caller throws",
  (store) => {
    it.each(Object.keys(FAILING))("in a %s is told with what it was about", async (kind) => {
      const told: unknown[][] = [];
      await FAILING[kind]!(await store.fresh(), (...all) => void told.push(all));
      await until(() => told.length > 0);
      expect(told[0]).toMatchObject([{ message: "bad card" }, ABOUT[kind]]);
    });

    it.each(Object.keys(FAILING))("in a %s is a warning where nobody is told", async (kind) => {
      const heard = warnings();
      await FAILING[kind]!(await store.fresh());
      await until(() => heard.length > 0);
      expect(heard[0]).toMatch(new RegExp(`^${NAMES[kind]}: Error: bad card`));
    });
  },
  ["sqlite", "pg"],
);
