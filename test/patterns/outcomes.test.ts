/** What is told, and what is there, when things break. */
import { expect, it, onTestFinished } from "vitest";
import { OutcomeUnknownError, UnavailableError } from "../../src/core/errors.js";
import { inbox, type Inbox } from "../../src/inbox/open.js";
import { lockRow, rows } from "../../src/rows/open.js";
import { faultProxy, type FaultProxy } from "../../src/testing/fault-proxy.js";
import { startChild } from "./children.js";
import { eventually } from "./claims-suite.js";
import { onStores, type Spot, type Store } from "./stores.js";

interface Place {
  readonly spot: Spot;
  readonly direct: Inbox<any>;
  readonly effect: (tx: any) => any;
  readonly effects: () => Promise<number>;
}

const INSERT = "INSERT INTO effects (id) VALUES (1)";

async function place(store: Store): Promise<Place> {
  const spot = await store.fresh();
  await spot.query("CREATE TABLE effects (id INTEGER NOT NULL)");
  return {
    spot,
    direct: (await spot.open(inbox)) as Inbox<any>,
    effect: (tx) => tx.query(INSERT),
    effects: async () => Number((await spot.query("SELECT count(*) AS n FROM effects"))[0]!["n"]),
  };
}

/** The inbox behind a proxy. */
async function behindProxy(store: Store, spot: Spot): Promise<[Inbox<any>, FaultProxy]> {
  const { port } = store.server();
  const proxy = await faultProxy({ port });
  onTestFinished(() => proxy.close());
  const url = String(spot.target).replace(`:${port}/`, `:${proxy.port}/`);
  const open = (_target: unknown, options?: object) => inbox(url, options);
  return [(await spot.open(open, { timeout: "5s" })) as Inbox<any>, proxy];
}

/** On MySQL the server is asked first whether the transaction is still there. */
function beforeCommit({ native }: { native: any }, run: () => void): void {
  const { query } = native;
  native.query = (text: string, ...more: unknown[]): unknown => {
    if (text === "COMMIT") {
      native.query = query;
      run();
    }
    return query.call(native, text, ...more);
  };
}

const SERVERS = ["pg", "mysql"] as const;

onStores(
  "when things break, a pattern",
  (store) => {
    it("whose COMMIT gets no answer says so, and tells the truth when asked again", async () => {
      const { spot, effect, effects } = await place(store);
      for (const [direction, applied] of [
        ["request", false],
        ["reply", true],
      ] as const) {
        const [i, proxy] = await behindProxy(store, spot);
        const before = await effects();
        const held = promise();
        const told = i.once(direction, "c", async (tx: any) => {
          await effect(tx);
          const hold = (): void => {
            proxy.hold(direction);
            held.resolve();
          };
          if (store.dialect === "mysql") beforeCommit(tx, hold);
          else hold();
        });
        const unknown = expect(told).rejects.toThrow(OutcomeUnknownError);
        await held.come;
        // On Postgres what follows the work until COMMIT is written needs no answer: one turn.
        await new Promise(setImmediate);
        if (applied) {
          await eventually("the commit", async () => ((await effects()) > before ? true : null));
        }
        proxy.cut();
        await proxy.heal();
        await unknown;
        await eventually("the truth", async () => {
          const again = await i.once(direction, "c", effect).catch((error: unknown) => {
            // The connection that was cut may still be in the pool.
            if (error instanceof UnavailableError) return null;
            throw error;
          });
          if (again === null) return null;
          expect(again).toBe(!applied);
          return true;
        });
        expect(await effects()).toBe(before + 1);
      }
    });

    it("whose connection breaks inside the work has done nothing, and says so", async () => {
      const { spot, direct, effect, effects } = await place(store);
      const [i, proxy] = await behindProxy(store, spot);
      const broken = i.once("e", "c", async (tx: any) => {
        await effect(tx);
        proxy.cut();
        await effect(tx);
      });
      await expect(broken).rejects.toThrow(UnavailableError);
      await expect(broken).rejects.toThrow(/broken off before COMMIT/);
      expect(await direct.once("e", "c", effect)).toBe(true);
      expect(await effects()).toBe(1);
    });

    it("whose work meets another's says that it did not happen, and the other's did", async () => {
      const { spot, effect, effects } = await place(store);
      await spot.query("CREATE TABLE pair (id INTEGER PRIMARY KEY)");
      await spot.query("INSERT INTO pair VALUES (1), (2)");
      const r = await spot.open((target) => rows(target));
      const reached = [promise(), promise()] as const;
      const meet = (mine: 0 | 1) =>
        r.transaction(async (tx: any) => {
          await lockRow(tx, "pair", { id: mine + 1 });
          reached[mine].resolve();
          await reached[1 - mine]!.come;
          await lockRow(tx, "pair", { id: 2 - mine });
          await effect(tx);
        });
      const outcomes = await Promise.allSettled([meet(0), meet(1)]);
      expect(outcomes.map(({ status }) => status).sort()).toEqual(["fulfilled", "rejected"]);
      const lost = outcomes.find(({ status }) => status === "rejected") as PromiseRejectedResult;
      expect(lost.reason).toBeInstanceOf(UnavailableError);
      expect(lost.reason).toMatchObject({ retryable: true });
      expect(String(lost.reason)).toMatch(/met another transaction .* did not happen/);
      expect(await effects()).toBe(1);
    });

    it("whose work takes longer than its time is undone, and others go on", async () => {
      const { spot, direct, effect, effects } = await place(store);
      const i = (await spot.open(inbox, { timeout: "500ms" })) as Inbox<any>;
      const slow = store.dialect === "mysql" ? "SELECT SLEEP(20)" : "SELECT pg_sleep(20)";
      for (const step of [(tx: any) => tx.query(slow), () => new Promise(() => undefined)]) {
        const late = i.once("e", "c", async (tx: any) => {
          await effect(tx);
          await step(tx);
        });
        await expect(late).rejects.toThrow(UnavailableError);
      }
      expect(await direct.once("e", "c", effect)).toBe(true);
      expect(await effects()).toBe(1);
    });

    it("whose work is refused by the database gets the database's own error", async () => {
      const { direct, effects } = await place(store);
      const refused = direct.once("e", "c", (tx: any) => tx.query("SELECT nothing FROM nowhere"));
      await expect(refused).rejects.not.toHaveProperty("family");
      await expect(refused).rejects.toThrow(/nowhere/);
      expect(await direct.has("e", "c")).toBe(false);
      expect(await effects()).toBe(0);
    });

    it("whose process is frozen inside the work blocks others no longer than its time", async () => {
      const { spot, direct, effect, effects } = await place(store);
      const child = startChild("races");
      await child.tell({ do: "open", ...spot.forChildren, timeout: 1_000 });
      const stalling = child.tell({ do: "stall", event: "e" }).catch(() => undefined);
      await child.told("stalling");
      child.freeze();
      const from = performance.now();
      await eventually("the frozen process to be put out", async () =>
        (await direct.once("e", "mailer", effect).catch((error: unknown) => {
          if (error instanceof UnavailableError) return false;
          throw error;
        }))
          ? true
          : null,
      );
      // Twice its time, and as much again for a machine that is busy.
      expect(performance.now() - from).toBeLessThan(4_000);
      child.thaw();
      await stalling;
      expect(await effects()).toBe(1);
    });
  },
  SERVERS,
);

function promise(): { readonly come: Promise<void>; readonly resolve: () => void } {
  let resolve: () => void = () => undefined;
  const come = new Promise<void>((settle) => (resolve = settle));
  return { come, resolve };
}
