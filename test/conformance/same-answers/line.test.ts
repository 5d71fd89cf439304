import { afterAll, test } from "vitest";
import { redis } from "../../../src/backends/redis/open.js";
import { remoteBackend } from "../../../src/lab/remote.js";
import { SimulatedProcess } from "../../../src/lab/process.js";
import { singleStore } from "../../../src/lab/simulation.js";
import { World } from "../../../src/lab/world.js";
import type { AnyBackend } from "../../../src/testing/subject.js";
import { InstantNetwork } from "../../lab/instant-network.js";
import { describeOn } from "../../servers/find.js";
import { redisProgram, startRedis, type RedisServer } from "../../servers/redis.js";
import { compare, mustHaveSeen, type Seen } from "./compare.js";
import { CALL } from "./known.js";
import { LineAsked } from "./line-asked.js";
import { drawSteps, LIMIT_MS, seedsOf, type Menu } from "./steps.js";
import type { Store, Terms } from "./store.js";
import { modelStore, realStore, until } from "./stores.js";

/**
 * The lines of the lab's single store are asked the same as those of a fair Redis: who is served
 * after whom, who has left, and what becomes of the place of one that does not come, or is dead.
 */

const CLIENTS = 3;
const TERMS: Terms = { shortTtlMs: 50, ttl: true };
const MENU: Menu = {
  wait: 10,
  leave: 2,
  acquire: 2,
  renew: 2,
  release: 6,
  "clean up": 1,
  inspect: 2,
};
/** The slow steps: each takes a second or two. */
const FIXED = {
  30: { op: "miss the turn", name: "a" },
  50: { op: "fall silent" },
  75: { op: "miss the turn", name: "b" },
  100: { op: "fall silent" },
} as const;
const NAMES = ["a", "b"];

/** A process that does not listen is dead to Redis after this time. */
const REDIS_DEAF_MS = 1_500;
/** To the lab, whoever has not touched for longer. */
const LAB_SILENT_MS = 3_000;
const LAB_TOUCH_MS = 300;

async function realLine(server: RedisServer, seed: number): Promise<Store> {
  const connect = () => redis(server.url, { prefix: `line-${seed}:` });
  const nowMs = async (): Promise<number> => {
    const [seconds, micros] = (await server.command("TIME")) as readonly [string, string];
    return Number(seconds) * 1_000 + Number(micros) / 1_000;
  };
  const store = await realStore("fair Redis", CLIENTS, connect, {
    async replace(place, meanwhile) {
      await clients[place]!.close();
      clients[place] = connect();
      await clients[place].open?.(CALL);
      // On the clock of the store, which has heard nothing since.
      const fromMs = await nowMs();
      await until("the dead one to be silent for long", async () => {
        await meanwhile();
        return (await nowMs()) - fromMs > REDIS_DEAF_MS + 100;
      });
    },
  });
  const clients = store.clients as AnyBackend[];
  return store;
}

async function modelLine(seed: number): Promise<Store> {
  const world = new World(seed);
  const network = new InstantNetwork(world);
  const model = singleStore({ waiting: "queue" })(world, network);
  const store = await modelStore("the model", world, model, {
    clients: CLIENTS,
    network,
    async replace(place, meanwhile) {
      const client = new SimulatedProcess(world, `again ${place}`);
      clients[place] = remoteBackend(client, network, model.find);
      for (let ms = 0; ms <= LAB_SILENT_MS; ms += LAB_TOUCH_MS) {
        await world.run(world.nowMs + LAB_TOUCH_MS);
        await meanwhile();
      }
    },
  });
  const clients = store.clients as AnyBackend[];
  return store;
}

describeOn(redisProgram, "a fair Redis", async () => {
  const server = await startRedis();
  afterAll(() => server.dispose());

  test("serves its waiters as the lab's single store does", async () => {
    const seen: Seen = new Map();
    for (const seed of seedsOf(2)) {
      await using real = new LineAsked(await realLine(server, seed), TERMS);
      await using model = new LineAsked(await modelLine(seed), TERMS);
      const steps = drawSteps(seed, { count: 140, menu: MENU, names: NAMES, fixed: FIXED });
      await compare({ seed, real, model }, steps, seen);
    }
    mustHaveSeen(seen, 2, [
      /^wait: waits; .* has its turn; .* was told the same, takes it/,
      /^wait: waits as before/,
      /^release: released; .* has its turn; .* takes it/,
      /^release: released; .* has its turn; .* left/,
      /^leave: . h left/,
      /^acquire: busy: h has #/,
      /^inspect: h has #, .*, \d wait/,
    ]);
    mustHaveSeen(seen, 1, [
      /^miss the turn: .* missed its turn/,
      /^fall silent: [1-9] fell silent/,
    ]);
  }, LIMIT_MS);
});
