/** F. Cancel: a waiter gives up, once at each moment at which anything happens to it. */
import { electionOf } from "../candidate.js";
import type { SimulatedProcess } from "../process.js";
import { Simulation, singleStore, type Client, type MakeStore } from "../simulation.js";
import { observedStore } from "../stores/observed-store.js";
import { sessionStore } from "../stores/session-store.js";
import { must, mustHold, mustLose, type Scenario } from "./scenario.js";

const TTL_MS = 10_000;
/** When the waiter comes, when the name is given back, and when the waiter must have it. */
const COMES_MS = 100;
const FREED_MS = 400;
const GRANTED_BY_MS = 3_000;
/** Where nothing stands in the way, what a waiter left behind is gone within this. */
const BOUND_MS = 2_000;
/** Less than any two events are apart, and enough to come between them. */
const HAIR_MS = 1e-4;

/** One for each way to wait; the seed chooses, so that a handful of seeds tries them all. */
const STORES: readonly MakeStore[] = [
  singleStore({ waiting: "poll" }),
  singleStore({ waiting: "notify" }),
  singleStore({ waiting: "queue" }),
  (world) => sessionStore(world),
  observedStore,
];

const chosen: MakeStore = (world, network) =>
  STORES[world.seed % STORES.length]!(world, network);

export const storeCancelScenarios: readonly Scenario[] = [
  {
    id: 37,
    name: "cancel-everywhere",
    title: "A waiter is cancelled before and after each message of its wait, one run for each.",
    options: { store: chosen },
    async play(sim) {
      await uncancelled(sim, "acquire");
      for (const way of Object.keys(WAYS)) await cancelAll(sim, way);
    },
    check(result) {
      mustHold(result);
      // No resource is touched.
      mustLose(result, []);
      const tried = result.of("note").length;
      must(tried === Object.keys(WAYS).length, `${tried} ways to wait were tried`);
    },
  },
];

/** A way to wait for the name, to have it for a while, and to give it back. */
type Way = (client: Client, signal: AbortSignal, have: () => Promise<void>) => Promise<void>;

const WAYS: Readonly<Record<string, Way>> = {
  acquire: async ({ tenure }, signal, have) => {
    const lease = await tenure.acquire("job", { ttl: TTL_MS, signal });
    await have();
    await lease.release();
  },
  hold: ({ tenure }, signal, have) => tenure.hold("job", { ttl: TTL_MS, signal }, have),
  campaign: async (client, signal, have) => {
    const candidacy = electionOf(client, { key: "job", ttlMs: TTL_MS });
    const term = await candidacy.campaign({ signal });
    await have();
    await term.resign();
  },
};

/** Cancels one way to wait at each of its moments. */
async function cancelAll(sim: Simulation, way: string): Promise<void> {
  const { seed, history } = sim.world;
  const anew = (): Simulation => {
    return new Simulation({ seed, fence: sim.resource.mode, store: chosen });
  };
  const moments = await uncancelled(anew(), way);
  let cancelled = 0;
  for (const atMs of moments) if (await cancelAt(anew(), way, atMs)) cancelled++;
  const { waiting, expiryClock } = sim.store.find().model.manifest;
  const text =
    `${way} cancelled at ${moments.length} moments (${waiting}, ${expiryClock} expiry): ` +
    `${cancelled} before the grant, and nothing was left behind`;
  must(cancelled > moments.length / 2, text);
  history.add({ kind: "note", text });
}

/** The moments of a wait that nobody cancels. */
async function uncancelled(sim: Simulation, way: string): Promise<readonly number[]> {
  const { error } = await wait(sim, way);
  must(error === undefined, `nobody cancelled the ${way}: ${String(error)}`);
  return momentsOf(sim);
}

/** What came of the wait of one run. */
interface Waited {
  readonly client: Client;
  readonly error: unknown;
}

/** A holder, and a waiter that may be told to stop at a time. */
async function wait(sim: Simulation, way: string, cancelMs = Infinity): Promise<Waited> {
  const { world } = sim;
  const holder = await sim.client("H");
  const client = await sim.client("W");
  const controller = new AbortController();
  if (cancelMs !== Infinity) world.at(cancelMs, () => controller.abort(cancelMs));
  let error: unknown;
  const holding = async (): Promise<void> => {
    const lease = await holder.tenure.acquire("job", { ttl: TTL_MS });
    await world.pass(FREED_MS - world.nowMs);
    await lease.release();
  };
  const waiting = async (): Promise<void> => {
    await world.pass(COMES_MS);
    world.history.add({ kind: "wait", key: "job", client: "W" });
    try {
      await WAYS[way]!(client, controller.signal, () => {
        world.history.add({ kind: "served", key: "job", client: "W" });
        return world.pass(GRANTED_BY_MS - world.nowMs);
      });
    } catch (caught) {
      world.history.add({ kind: "gave-up", key: "job", client: "W" });
      error = caught;
    }
  };
  await world.until(Promise.all([holding(), waiting()]), 10 * TTL_MS);
  return { client, error };
}

/** Before and after each message that the waiter sent or was sent, until it had its lease. */
function momentsOf(sim: Simulation): readonly number[] {
  const own = sim.world.history
    .of("message")
    .filter(({ from, to }) => from === "W" || to === "W")
    .flatMap(({ sentMs, atMs }) => [sentMs, atMs])
    .filter((ms) => ms < GRANTED_BY_MS);
  const distinct = [...new Set(own.map((ms) => Math.round(ms * 1_000) / 1_000))];
  // The history rounds to a thousandth.
  const rounded = 1e-3;
  return distinct.flatMap((ms) => [ms - rounded, ms + rounded + HAIR_MS]);
}

/** Whether the wait was cancelled before it was granted; checks what is left behind. */
async function cancelAt(sim: Simulation, way: string, atMs: number): Promise<boolean> {
  const { world, store } = sim;
  const { client, error } = await wait(sim, way, atMs);
  const when = `${way} cancelled at ${atMs} ms`;
  must(error === undefined || error === atMs, `${when}, it failed with ${String(error)}`);
  await world.run(world.nowMs + BOUND_MS);
  const shown = store.find().model.list("");
  must(shown.length === 0, `${when}, it left ${JSON.stringify(shown[0]?.name)} held`);
  mustBeAtRest(client.process, when);
  const next = await sim.client("N");
  const lease = await world.until(next.tenure.tryAcquire("job", { ttl: TTL_MS }), TTL_MS);
  must(lease !== null, `${when}, it left the name taken`);
  const seen = await world.until(next.tenure.inspect("job"), TTL_MS);
  must((seen?.waiters ?? 0) === 0, `${when}, it left a waiter in the store`);
  return error !== undefined;
}

function mustBeAtRest(process: SimulatedProcess, when: string): void {
  const timers = process.pendingTimers;
  must(timers === 0, `${when}, it left ${timers} timers`);
}
