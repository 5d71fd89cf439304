import { afterAll, test } from "vitest";
import { dynamodb } from "../../../src/backends/dynamodb/open.js";
import { observedStore } from "../../../src/lab/stores/observed-store.js";
import { World } from "../../../src/lab/world.js";
import { InstantNetwork } from "../../lab/instant-network.js";
import { dynaliteProgram, startDynamodb } from "../../servers/dynamodb.js";
import { describeOn } from "../../servers/find.js";
import { readyTable } from "../dynamodb-subject.js";
import { Asked } from "./asked.js";
import { compare, mustHaveSeen, type Seen } from "./compare.js";
import { drawSteps, LIMIT_MS, seedsOf, type Menu } from "./steps.js";
import type { Terms } from "./store.js";
import { modelStore, realStore } from "./stores.js";

/**
 * The lab's store that compares no clocks is asked the same as DynamoDB's interface. A lease that
 * ends by itself is here one that a contender has seen unchanged: the core counts that time, and
 * the store compares the version. What processes of one machine tell each other by notes is not
 * modelled, and takes a TTL that no run here lasts.
 */

const CLIENTS = 2;
const TERMS: Terms = { shortTtlMs: 1_000, ttl: true, version: true, certainty: true };
const MENU: Menu = {
  acquire: 6,
  "take over": 4,
  renew: 4,
  "renew several": 2,
  release: 3,
  "release several": 1,
  "clean up": 2,
  break: 2,
  inspect: 3,
  list: 1,
};

describeOn(dynaliteProgram, "dynamodb on dynalite", async () => {
  const server = await startDynamodb(dynaliteProgram);
  afterAll(() => server.dispose());

  test("answers as the lab's store does that compares no clocks", async () => {
    const seen: Seen = new Map();
    for (const seed of seedsOf(2)) {
      const table = await readyTable(server);
      const clients = [server.client(), server.client()] as const;
      const connect = () => dynamodb({ client: clients[0], renewals: clients[1], table });
      const powers = {
        close: async () => {
          for (const client of clients) client.destroy();
        },
      };
      const world = new World(seed);
      const network = new InstantNetwork(world);
      const made = modelStore("the model", world, observedStore(world), { clients: CLIENTS, network });
      await using real = new Asked(await realStore("dynalite", CLIENTS, connect, powers), TERMS);
      await using model = new Asked(await made, TERMS);
      await compare({ seed, real, model }, drawSteps(seed, { count: 150, menu: MENU }), seen);
    }
    mustHaveSeen(seen, 2, [
      /^take over: granted #, the next token/,
      /^take over: renewed meanwhile; busy: h/,
      /^acquire: granted #, the next token/,
      /^acquire: granted #, again/,
      /^acquire: busy: h/,
      /^renew: renewed/,
      /^renew: lost: h/,
      /^renew: lost: absent/,
      /^release: released/,
      /^inspect: h has #, \d+ ms, unmoved/,
      /^inspect: h has #, \d+ ms, moved/,
    ]);
  }, LIMIT_MS);
});
