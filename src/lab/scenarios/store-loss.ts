/** D. Failover and durability: the store forgets what it had acknowledged. */
import { StaleTokenError, TokenConflictError, UnavailableError } from "../../core/errors.js";
import { Hand, refusalOf, tell } from "../hand.js";
import { singleStore, type Simulation } from "../simulation.js";
import { fullStore, type FullStore } from "../stores/full-store.js";
import type { LeaseTable } from "../stores/lease-table.js";
import { replicatedPair, type ReplicatedPair } from "../stores/replicated-pair.js";
import { must, mustHold, mustLose, type Scenario } from "./scenario.js";

const TTL_MS = 10_000;
const HOUR_MS = 3_600_000;

export const storeLossScenarios: readonly Scenario[] = [
  {
    id: 24,
    name: "token-reissued",
    title: "A failover loses a grant, and the new primary gives its token to another holder.",
    options: { store: replicatedPair },
    play: (sim) => tell(sim, () => reissueToken(sim)),
    check(result) {
      mustHold(result);
      // An equal token is not lower: who compares tokens alone takes both.
      mustLose(result, ["none", "naive"]);
      const [, a, b] = result.of("grant");
      must(a?.token === b?.token && a?.holder !== b?.holder, "the token did not come again");
      const refused = result.of("arm").filter(({ why }) => why === "conflict");
      must(
        refused.length === (result.fence === "armed" ? 2 : 0),
        `${refused.length} armings were refused as conflicts`,
      );
    },
  },
  {
    id: 25,
    name: "counter-lost",
    title: "A store is emptied, put back from a copy, and emptied when its clock is a day back.",
    options: {
      store: (world, network) => ({
        ...singleStore()(world, network),
        rules: { tokensMayRepeat: true, mayHaveTwoHolders: false },
      }),
    },
    play: (sim) => tell(sim, () => loseCounters(sim)),
    check(result) {
      mustHold(result);
      mustLose(result, ["none"]);
      const [a, b, restored, c] = result.of("grant").map(({ token }) => BigInt(token));
      must(a! < b!, "the tokens of a store with a right clock went back");
      must(b! < restored!, "the tokens went back when the store was put back from a copy");
      must(c! < b!, "the tokens of a store with a wrong clock did not go back");
      const stale = result.of("arm", "write").filter(({ client, accepted }) => {
        return client === "C" && !accepted;
      });
      must((result.fence === "none") === (stale.length === 0), "C was not refused as it must");
    },
  },
  {
    id: 28,
    name: "store-full",
    title: "The store's disk is full, once for a moment and once for longer than the TTL.",
    options: { store: (world) => fullStore(world) },
    play: (sim) => tell(sim, () => fillStore(sim)),
    check(result) {
      mustHold(result);
      mustLose(result, ["none"]);
      const [first, second] = result.of("fault").filter(({ what }) => what === "disk-full");
      const stops = result.of("stops").find(({ client }) => client === "A");
      must(stops?.why === "deadline", "A was not told that its time was over");
      must(stops!.atMs > second!.atMs, "A lost its lease when the disk was full for a moment");
      const lateMs = stops!.atMs - second!.atMs;
      must(lateMs < TTL_MS, `A went on for ${lateMs} ms without a renewal`);
      const lasted = result.of("extend").filter(({ atMs }) => atMs > first!.atMs);
      must(lasted.length > 0, "A's renewal did not recover");
      must(result.grants === 2, `${result.grants} grants instead of two`);
    },
  },
];

async function reissueToken(sim: Simulation): Promise<void> {
  const { world, network, resource } = sim;
  const pair = sim.store as ReplicatedPair;
  const warmUp = await Hand.take(sim, await sim.client("W"));
  await warmUp.release();
  await world.pass(500);
  // With its clock right the new primary would count on from the time.
  pair.primary.server.jumpWall(-HOUR_MS);
  pair.setReplicaBack(HOUR_MS);
  network.plan = ({ what }) => (what === "replicate" ? { drop: true } : undefined);
  const a = await Hand.take(sim, await sim.client("A"));
  await a.open();
  await a.read();
  pair.failOver();
  const b = await Hand.take(sim, await sim.client("B"));
  const conflict = await refusalOf(b.open());
  if (resource.mode === "armed") {
    must(conflict instanceof TokenConflictError, "B could arm with A's token");
  } else {
    await b.read();
    await b.write();
  }
  await refusalOf(a.write());
  // And the other way round: B is the first at this one.
  await b.open("ledger");
  const late = await refusalOf(a.open("ledger"));
  must(
    late instanceof TokenConflictError === (resource.mode === "armed"),
    "A's arming after B's went otherwise than it must",
  );
}

async function loseCounters(sim: Simulation): Promise<void> {
  const store = sim.store.find().model as LeaseTable;
  const forget = (): void => {
    sim.world.history.add({ kind: "fault", what: "forget", target: "store" });
    store.forget("all");
  };
  const a = await Hand.take(sim, await sim.client("A"), { ttlMs: TTL_MS });
  await a.open();
  await a.read();
  const { counter } = store.copyOf("job");
  forget();
  const b = await Hand.take(sim, await sim.client("B"));
  await b.open();
  await b.read();
  await b.write();
  await refusalOf(a.write());
  await b.release();
  // A copy from before B's grant.
  store.take("job", counter === undefined ? {} : { counter });
  const restored = await Hand.take(sim, b.client);
  await restored.release();
  forget();
  store.server.jumpWall(-24 * HOUR_MS);
  const c = await Hand.take(sim, await sim.client("C"));
  const refused = await refusalOf(
    (async () => {
      await c.open();
      await c.read();
      await c.write();
    })(),
  );
  // Not a silent one: whoever compares tokens says no, to the newest holder.
  if (sim.resource.mode === "armed") {
    must(refused instanceof StaleTokenError, "C could arm with a token that went back");
  }
}

async function fillStore(sim: Simulation): Promise<void> {
  const store = sim.store as FullStore;
  const { world } = sim;
  const a = await Hand.take(sim, await sim.client("A"), { ttlMs: TTL_MS });
  const b = await sim.client("B");
  await a.open();
  await a.read();
  store.setFull(true);
  await world.pass(TTL_MS / 2);
  must(a.look() === "unknown", `after a refused renewal A's lease is ${a.look()}`);
  const refused = await refusalOf(b.tenure.tryAcquire("other", { ttl: TTL_MS }));
  must(refused instanceof UnavailableError, "a full store did not tell B that it is unavailable");
  store.setFull(false);
  await world.pass(TTL_MS);
  must(a.look() === "held", `after the store had room again A's lease is ${a.look()}`);
  store.setFull(true);
  await world.pass(2 * TTL_MS);
  must(a.look() === "lost", `after two TTLs without a renewal A's lease is ${a.look()}`);
  store.setFull(false);
  const next = await Hand.take(sim, b);
  await next.open();
  await next.read();
  await next.write();
  await refusalOf(a.write());
  await next.release();
}
