import { test } from "vitest";
import { redlock } from "../../../src/backends/redlock/open.js";
import type { Runtime } from "../../../src/core/runtime.js";
import { redlockMasters } from "../../../src/lab/stores/masters.js";
import { World } from "../../../src/lab/world.js";
import { platform } from "../../../src/platform/index.js";
import { describeOn } from "../../servers/find.js";
import {
  disposeAll,
  redisProgram,
  startRedisServers,
  type RedisServer,
} from "../../servers/redis.js";
import { InstantNetwork } from "../../lab/instant-network.js";
import { Asked } from "./asked.js";
import { compare, mustHaveSeen, type Seen } from "./compare.js";
import { CALL } from "./known.js";
import { drawSteps, LIMIT_MS, seedsOf, type Menu } from "./steps.js";
import type { Store, Terms } from "./store.js";
import { modelStore, realStore, until } from "./stores.js";

/**
 * Independent servers of the lab and real ones, with the same Redlock over them: servers are killed
 * with all they know, and come back empty.
 */

const CLIENTS = 2;
const TERMS: Terms = { shortTtlMs: 50, cutsShort: true, certainty: true, isVague: true };
const MENU: Menu = {
  acquire: 8,
  renew: 4,
  "renew several": 2,
  release: 5,
  "release several": 1,
  "clean up": 4,
  inspect: 4,
  list: 1,
  lapse: 1,
  fault: 3,
};

/** What stands between servers that answer at different times is not what is compared here. */
const STRAGGLER_MS = 200;

function patient(): Runtime {
  const runtime = platform();
  const { timers } = runtime;
  const slowed = (ms: number): number => (ms >= STRAGGLER_MS ? 20 * ms : ms);
  return {
    ...runtime,
    timers: {
      after: (ms, run, options) => timers.after(slowed(ms), run, options),
      soon: (run) => timers.soon(run),
    },
  };
}

async function realMasters(count: number): Promise<Store> {
  const servers = await startRedisServers(count);
  const runtime = patient();
  const urls = servers.map(({ url }) => url);
  const running = (): readonly RedisServer[] => servers.filter(({ pid }) => pid !== undefined);
  const holds = (server: RedisServer, name: string) =>
    server.command("GET", `tenure:redlock:lock:${name}`);
  const store = await realStore(`${count} servers`, CLIENTS, () => redlock(urls, { runtime }), {
    isOver: async (name) => {
      const held = await Promise.all(running().map((server) => holds(server, name)));
      return held.every((one) => one === null);
    },
    faults: {
      stop: async (member) => {
        const here = running();
        if (here.length === 1) return "only one is left";
        const server = here[member % here.length]!;
        await server.kill();
        // Each client finds out by asking.
        for (const [i, client] of store.clients.entries()) {
          const holder = await probe(client, i);
          await client.release([{ name: holder, holder }], CALL);
          await until("nothing to be left", () => store.isOver!(holder));
        }
        return `server ${servers.indexOf(server)} stopped`;
      },
      start: async () => {
        await Promise.all(servers.map(async (one) => one.pid ?? (await one.start())));
        for (const [i, client] of store.clients.entries()) {
          await until("each client to be connected to each server", async () => {
            const holder = await probe(client, i);
            const held = await Promise.all(servers.map((server) => holds(server, holder)));
            await client.release([{ name: holder, holder }], CALL);
            return held.every((one) => String(one).startsWith(`${holder} `));
          });
          await until("nothing to be left", () => store.isOver!(`probe${i}`));
        }
        return "all started";
      },
    },
    close: () => disposeAll(servers),
  });
  return store;
}

async function probe(client: Store["clients"][number], i: number): Promise<string> {
  const holder = `probe${i}`;
  // One that is down is in the answer of none, or of all.
  const asking = Promise.resolve(client.acquire({ name: holder, holder, ttlMs: 60_000 }, CALL));
  await asking.catch(() => undefined);
  return holder;
}

function modelMasters(seed: number, count: number): Promise<Store> {
  const world = new World(seed);
  const network = new InstantNetwork(world);
  const store = redlockMasters(world, network, count);
  const { masters } = store;
  return modelStore("the model", world, store, {
    clients: CLIENTS,
    network,
    faults: {
      stop: async (member) => {
        const here = masters.filter(({ server }) => server.isAlive);
        if (here.length === 1) return "only one is left";
        const master = here[member % here.length]!;
        master.stop();
        return `server ${masters.indexOf(master)} stopped`;
      },
      start: async () => {
        for (const master of masters) master.start();
        await world.run(world.nowMs + 1);
        return "all started";
      },
    },
  });
}

describeOn(redisProgram, "independent servers", () => {
  test.each([3, 5])("%i of the lab answer Redlock as real ones do", async (count) => {
    const seen: Seen = new Map();
    for (const seed of seedsOf(3)) {
      await using real = new Asked(await realMasters(count), TERMS);
      await using model = new Asked(await modelMasters(seed, count), TERMS);
      const plan = { count: 130, menu: MENU, faults: ["stop", "stop", "start", "start"] };
      await compare({ seed, real, model }, drawSteps(seed, plan), seen);
    }
    mustHaveSeen(seen, 1, [
      /^after stop, acquire: granted/,
      /^after stop, acquire: busy: h/,
      /^after stop, renew.*: .*renewed/,
      /^after stop, .*: unavailable/,
      /^after start, renew.*: .*renewed/,
      /^after start, renew.*: .*lost/,
      /^after start, release: not-held/,
    ]);
  }, LIMIT_MS);
});
