/** D. Failover and durability: leases that live as long as a session, and sessions that end. */
import { Hand, refusalOf, tell } from "../hand.js";
import type { Simulation } from "../simulation.js";
import { sessionStore, type SessionStore } from "../stores/session-store.js";
import { must, mustHold, mustLose, type Scenario, type ScenarioResult } from "./scenario.js";

const TTL_MS = 10_000;
/** Renewals come after a third of the TTL, give or take their jitter, and take a round trip. */
const NEXT_RENEWAL_MS = TTL_MS / 2;

export const storeSessionScenarios: readonly Scenario[] = [
  {
    id: 26,
    name: "leader-change",
    title: "The store's leader freezes, a deposed one ends a session early, and another follows.",
    options: { store: (world) => sessionStore(world) },
    play: (sim) => tell(sim, () => changeLeaders(sim)),
    check(result) {
      mustHold(result);
      mustLose(result, ["none"]);
      mustTellAt(result, "early-revoke", "A");
      const killed = result.of("fault").find(({ what }) => what === "kill");
      const [, , c] = result.of("grant");
      const afterMs = (c?.atMs ?? Infinity) - killed!.atMs;
      must(afterMs > TTL_MS * 0.9, `B's lease went over after ${afterMs} ms, before its time`);
      must(afterMs < 2 * TTL_MS + 5_000, `C had to wait for ${afterMs} ms`);
    },
  },
  {
    id: 27,
    name: "dead-lease-grant",
    title: "A waiter's session ends while its request is on the way; then the request arrives.",
    options: { store: (world) => sessionStore(world) },
    play: (sim) => tell(sim, () => outliveSession(sim)),
    check(result) {
      mustHold(result);
      mustLose(result, []);
      // The request of the dead session was the first to reach a store that was free again.
      must(result.grants === 2, `${result.grants} grants instead of A's and B's`);
      const late = result.of("message").find(({ atMs, sentMs, what, from }) => {
        return from === "B" && what === "acquire" && atMs - sentMs > TTL_MS;
      });
      const [, b] = result.of("grant");
      must(late !== undefined && b!.atMs > late.atMs, "the late request did not come first");
      must(
        result.of("believes").every(({ client, atMs }) => client !== "B" || atMs >= b!.atMs),
        "B believed in a lease that it did not have",
      );
    },
  },
  {
    id: 29,
    name: "backend-killed",
    title: "The connection of a session lock is ended by the server; later a standby is promoted.",
    options: { store: (world) => sessionStore(world) },
    play: (sim) => tell(sim, () => endConnections(sim)),
    check(result) {
      mustHold(result);
      mustLose(result, ["none"]);
      mustTellAt(result, "end-connection", "A");
      mustTellAt(result, "failover", "B");
      must(result.grants === 3, `${result.grants} grants instead of three`);
    },
  },
];

/** A holder whose session ended is told by its next renewal. */
function mustTellAt(result: ScenarioResult, what: string, client: string): void {
  const fault = result.of("fault").find((event) => event.what === what);
  const stops = result.of("stops").find((event) => event.client === client);
  must(fault !== undefined && stops !== undefined, `${client} was never told of the ${what}`);
  const lateMs = stops!.atMs - fault!.atMs;
  must(lateMs >= 0 && lateMs < NEXT_RENEWAL_MS, `${client} was told ${lateMs} ms after ${what}`);
  must(["absent", "session", "taken"].includes(stops!.why ?? ""), `${client}: ${stops!.why}`);
}

async function changeLeaders(sim: Simulation): Promise<void> {
  const store = sim.store as SessionStore;
  const { world } = sim;
  const a = await Hand.take(sim, await sim.client("A"), { ttlMs: TTL_MS });
  await a.open();
  await a.read();
  // Frozen for longer than an election takes: the others elect, and A's session goes on there.
  store.find().server.pauseFor(TTL_MS);
  await world.pass(TTL_MS * 1.5);
  must(a.look() === "held", `A's lease is ${a.look()} under another leader`);
  store.revokeEarly("job");
  const b = await Hand.take(sim, await sim.client("B"), { ttlMs: TTL_MS });
  await b.open();
  await b.read();
  await b.write();
  must(a.look() === "held", "A knew at once, so this shows nothing");
  await refusalOf(a.write());
  await world.pass(NEXT_RENEWAL_MS);
  must(a.look() === "lost", `A's lease is ${a.look()} after its renewal`);
  // A new leader gives every session its whole time again: B's death shows later.
  b.client.process.kill();
  await world.pass(TTL_MS / 2);
  store.changeLeader();
  const c = await Hand.take(sim, await sim.client("C"), { ttlMs: TTL_MS });
  await c.release();
}

async function outliveSession(sim: Simulation): Promise<void> {
  const { world, network } = sim;
  const store = sim.store as SessionStore;
  const a = await Hand.take(sim, await sim.client("A"), { ttlMs: TTL_MS });
  const clientB = await sim.client("B");
  const heldForMs = 2.5 * TTL_MS;
  let isSent = false;
  network.plan = ({ from, what }) => {
    if (from !== "B" || what !== "acquire" || isSent) return undefined;
    isSent = true;
    // What comes after it does not come at all, for as long as B's session takes to end.
    world.after(0, () => network.isolate("B", store.find().server.name));
    world.after(heldForMs + 1_000, () => network.healAll());
    return { holdMs: heldForMs };
  };
  // Nothing answers while it is cut off: it asks again, each time as a new holder.
  const takeAtLast = async (): Promise<Hand> => {
    for (;;) {
      let b: Hand | undefined;
      const take = async (): Promise<void> => void (b = await Hand.take(sim, clientB));
      await refusalOf(take());
      if (b !== undefined) return b;
    }
  };
  const waiting = takeAtLast();
  await world.pass(1_000);
  await a.open();
  await a.read();
  await a.write();
  await a.release();
  const b = await waiting;
  await b.open();
  await b.read();
  await b.write();
  await b.release();
}

async function endConnections(sim: Simulation): Promise<void> {
  const store = sim.store as SessionStore;
  const { world } = sim;
  const a = await Hand.take(sim, await sim.client("A"), { ttlMs: TTL_MS });
  await a.open();
  await a.read();
  store.endConnection("job");
  const b = await Hand.take(sim, await sim.client("B"), { ttlMs: TTL_MS });
  await b.open();
  await b.read();
  await b.write();
  await refusalOf(a.write());
  await world.pass(NEXT_RENEWAL_MS);
  must(a.look() === "lost", `A's lease is ${a.look()} after its renewal`);
  await b.read();
  store.promoteStandby();
  const c = await Hand.take(sim, await sim.client("C"), { ttlMs: TTL_MS });
  await c.open();
  await c.read();
  await c.write();
  await refusalOf(b.write());
  await world.pass(NEXT_RENEWAL_MS);
  must(b.look() === "lost", `B's lease is ${b.look()} after its renewal`);
  await c.release();
}
