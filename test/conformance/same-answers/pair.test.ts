import { setTimeout as sleep } from "node:timers/promises";
import { expect, test } from "vitest";
import { redis } from "../../../src/backends/redis/open.js";
import { replicatedPair } from "../../../src/lab/stores/replicated-pair.js";
import { World } from "../../../src/lab/world.js";
import { faultProxy } from "../../../src/testing/fault-proxy.js";
import { describeOn } from "../../servers/find.js";
import { redisProgram, startRedis, startReplica } from "../../servers/redis.js";
import { Asked } from "./asked.js";
import { compare, mustHaveSeen, type Seen } from "./compare.js";
import { CALL } from "./known.js";
import { drawSteps, LIMIT_MS, seedsOf, type Menu } from "./steps.js";
import type { Store, Terms } from "./store.js";
import { modelStore, realStore, ReplicaNetwork } from "./stores.js";

/**
 * The lab's pair with a replica is asked the same as a real primary whose link to its replica is
 * cut, which is killed, and whose replica is promoted: what was granted, renewed, released and
 * broken after the cut is as if it had not been.
 */

const CLIENTS = 2;
const TERMS: Terms = { shortTtlMs: 50, ttl: true, left: true, epoch: true, certainty: true };
const MENU: Menu = {
  acquire: 6,
  renew: 3,
  "renew several": 2,
  release: 3,
  "clean up": 1,
  break: 2,
  inspect: 4,
  list: 1,
  lapse: 1,
};
const STEPS = 150;
const CUT = 70;
const FAIL_OVER = 100;
const NAMES = ["a", "b", "c", "d"];

/** A counter ahead of all clocks: of this name both servers give out the same token. */
const AHEAD_MS = 3_600_000;

async function realPair(seed: number): Promise<Store> {
  const primary = await startRedis();
  const link = await faultProxy({ port: primary.port, sleep });
  const token = BigInt(Date.now() + AHEAD_MS) * 1_000n;
  await primary.command("HSET", "tenure:{ahead}", "t", String(token));
  const replica = await startReplica(link.port);
  const connect = (port: number) => redis(`redis://127.0.0.1:${port}`, { storeId: `${seed}` });
  const store = await realStore("Redis with a replica", CLIENTS, () => connect(primary.port), {
    faults: {
      cut: async () => {
        await replica.caughtUp(primary);
        link.refuse();
        link.cut();
        return "cut";
      },
      "fail over": async () => {
        await primary.kill();
        await replica.promote();
        for (const client of clients.splice(0)) await client.close();
        for (let i = 0; i < CLIENTS; i++) {
          const client = connect(replica.port);
          await client.open?.(CALL);
          clients.push(client);
        }
        return "failed over";
      },
    },
    close: async () => {
      await replica.dispose();
      await primary.dispose();
      await link.close();
    },
  });
  const clients = store.clients as (typeof store.clients)[number][];
  return store;
}

function modelPair(seed: number): Promise<Store> {
  const world = new World(seed);
  const network = new ReplicaNetwork(world);
  const pair = replicatedPair(world, network);
  const wallMs = pair.primary.server.runtime.clock.wallMs();
  const counter = BigInt(Math.floor(wallMs) + AHEAD_MS) * 1_000n;
  for (const table of [pair.primary, pair.replica]) table.take("ahead", { counter });
  return modelStore("the model", world, pair, {
    clients: CLIENTS,
    network,
    faults: {
      cut: async () => {
        network.isCut = true;
        return "cut";
      },
      "fail over": async () => {
        pair.failOver();
        return "failed over";
      },
    },
  });
}

describeOn(redisProgram, "a primary with a replica", () => {
  test("loses the same in a failover as the lab's pair does", async () => {
    const seen: Seen = new Map();
    for (const seed of seedsOf(3)) {
      await using real = new Asked(await realPair(seed), TERMS);
      await using model = new Asked(await modelPair(seed), TERMS);
      const steps = drawSteps(seed, {
        count: STEPS,
        menu: MENU,
        names: NAMES,
        fixed: {
          [CUT - 1]: { op: "acquire", name: "kept", holder: "h3" },
          [CUT]: { op: "fault", fault: "cut" },
          [CUT + 1]: { op: "clean up", name: "kept", member: 0 },
          [CUT + 2]: { op: "acquire", name: "ahead", holder: "h1" },
          [CUT + 3]: { op: "acquire", name: "lost", holder: "h1" },
          [FAIL_OVER]: { op: "fault", fault: "fail over" },
          [FAIL_OVER + 1]: { op: "inspect", name: "kept" },
          [FAIL_OVER + 2]: { op: "acquire", name: "ahead", holder: "h2" },
          [FAIL_OVER + 3]: { op: "acquire", name: "lost", holder: "h2" },
        },
      });
      const answers = (await compare({ seed, real, model }, steps, seen)).slice(FAIL_OVER);
      // Released, and not heard of.
      expect(answers[1]).toMatch(/^h3x\d+ has #/);
      expect(answers[2]).toMatch(/the same token, .* epoch 2$/);
      expect(answers[3]).toMatch(/the next token, .* epoch 2$/);
    }
    mustHaveSeen(seen, 3, [
      /^after fail over, renew.*: renewed/,
      /^after fail over, renew.*: lost: absent/,
      /^after fail over, renew.*: lost: h has #/,
      /^after fail over, acquire: granted #, the next token, \d+ ms, epoch 2/,
      /^after fail over, release: released/,
    ]);
  }, LIMIT_MS);
});
