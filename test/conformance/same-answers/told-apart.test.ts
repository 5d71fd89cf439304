import { expect, test } from "vitest";
import { memoryBackend } from "../../../src/backends/memory/index.js";
import { MemoryStore } from "../../../src/backends/memory/store.js";
import { SimulatedProcess } from "../../../src/lab/process.js";
import { singleStore, type SimulatedStore } from "../../../src/lab/simulation.js";
import type { TableFlaw } from "../../../src/lab/stores/lease-table.js";
import { sessionStore } from "../../../src/lab/stores/session-store.js";
import { World } from "../../../src/lab/world.js";
import { InstantNetwork } from "../../lab/instant-network.js";
import { Asked } from "./asked.js";
import { compare, Disagreement } from "./compare.js";
import { SessionsAsked } from "./sessions-asked.js";
import { drawSteps, type Menu, type Plan } from "./steps.js";
import type { Store, Terms } from "./store.js";
import { modelStore } from "./stores.js";

/** A model that deviates is told apart from a right store, and the reader sees where. */

const CLIENTS = 2;
const SEEDS = 5;
const TERMS: Terms = { shortTtlMs: 50, cutsShort: true, ttl: true, left: true, certainty: true };
const MENU: Menu = { acquire: 6, renew: 4, release: 3, "clean up": 2, break: 2, inspect: 3, lapse: 1 };

function store(what: string, make: (world: World) => SimulatedStore, seed: number): Promise<Store> {
  const world = new World(seed);
  const network = new InstantNetwork(world);
  return modelStore(what, world, make(world), { clients: CLIENTS, network });
}

/** The memory backend, on a simulated clock of its own. */
function memory(world: World): SimulatedStore {
  const { runtime } = new SimulatedProcess(world, "real");
  const kept = new MemoryStore({ runtime });
  return {
    ...singleStore()(world, new InstantNetwork(world)),
    backend: () => memoryBackend({ runtime, store: kept }),
  };
}

/** Where the first of a few seeds parts; undefined where none does. */
async function partsAt(
  make: (seed: number) => Promise<readonly [Asked, Asked]>,
  plan: Plan,
): Promise<Disagreement | undefined> {
  for (let seed = 1; seed <= SEEDS; seed++) {
    const [real, model] = await make(seed);
    try {
      await compare({ seed, real, model }, drawSteps(seed, plan));
    } catch (error) {
      if (!(error instanceof Disagreement)) throw error;
      return error;
    } finally {
      await real[Symbol.asyncDispose]();
      await model[Symbol.asyncDispose]();
    }
  }
  return undefined;
}

function withFlaw(flaw?: TableFlaw): Promise<Disagreement | undefined> {
  const table = (world: World): SimulatedStore =>
    singleStore(flaw === undefined ? {} : { flaw })(world, new InstantNetwork(world));
  const make = async (seed: number) => [
    new Asked(await store("memory", memory, seed), TERMS),
    new Asked(await store("the model", table, seed), TERMS),
  ] as const;
  return partsAt(make, { count: 200, menu: MENU });
}

test("a table without a flaw answers as memory does", async () => {
  expect(await withFlaw()).toBeUndefined();
});

test.each<TableFlaw>([
  "release-any",
  "renew-any",
  "renew-recreates",
  "token-dies",
  "renewal-moves-token",
  "no-expiry",
  "value-then-expiry",
])("a table with the flaw %s is told apart, with the seed and all steps", async (flaw) => {
  const parted = await withFlaw(flaw);
  expect(parted?.message).toMatch(/^seed \d: .* at step (\d+)\n0\. .*[^]*\n\1\. /);
});

test("sessions that grant to a dead one are told apart", async () => {
  const sessions = (asked: Asked): SessionsAsked => new SessionsAsked(asked);
  const terms: Terms = { shortTtlMs: 1_000 };
  const right = (world: World): SimulatedStore => sessionStore(world);
  const wrong = (world: World): SimulatedStore => sessionStore(world, "dead-lease-grant");
  const make = async (seed: number) => [
    new Asked(await store("right sessions", right, seed), terms, sessions),
    new Asked(await store("the model", wrong, seed), terms, sessions),
  ] as const;
  const menu = { acquire: 4, release: 3, "close session": 1, "acquire too late": 1, lapse: 1 };
  const parted = await partsAt(make, { count: 60, menu });
  expect(parted?.message).toMatch(/right sessions: no answer\n.*the model: granted/);
});
