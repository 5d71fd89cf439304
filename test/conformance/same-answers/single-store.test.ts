import { afterAll, test } from "vitest";
import { mysql } from "../../../src/backends/mysql/open.js";
import { postgres } from "../../../src/backends/postgres/open.js";
import { redis } from "../../../src/backends/redis/open.js";
import { singleStore } from "../../../src/lab/simulation.js";
import { World } from "../../../src/lab/world.js";
import type { AnyBackend } from "../../../src/testing/subject.js";
import { describeOn, type Program } from "../../servers/find.js";
import { mariadbProgram, startMariadb } from "../../servers/mariadb.js";
import { postgresProgram, startPostgres } from "../../servers/postgres.js";
import { redisProgram, startRedis } from "../../servers/redis.js";
import type { Server } from "../../servers/server.js";
import { InstantNetwork } from "../../lab/instant-network.js";
import { Asked } from "./asked.js";
import { compare, mustHaveSeen, type Seen } from "./compare.js";
import type { Terms } from "./store.js";
import { modelStore, realStore } from "./stores.js";
import { drawSteps, LIMIT_MS, seedsOf, type Menu } from "./steps.js";

/**
 * The lab's single store, whose server's clock ends leases, is asked the same as real servers.
 */

const CLIENTS = 2;
const BASE: Terms = { shortTtlMs: 50, ttl: true, left: true, certainty: true };
const MENU: Menu = {
  acquire: 6,
  renew: 4,
  "renew several": 2,
  release: 3,
  "release several": 1,
  "clean up": 2,
  break: 2,
  inspect: 3,
  list: 1,
  lapse: 1,
};
const WANTED = [
  /^acquire: granted #, the next token/,
  /^acquire: granted #, again/,
  /^acquire: busy: h has #/,
  /^renew: renewed/,
  /^renew: lost: absent/,
  /^renew: lost: h has #/,
  /^release: released/,
  /^release: not-held/,
  /^clean up: released/,
  /^break: broken/,
  /^break: not broken/,
  /^inspect: free/,
  /^inspect: h has #/,
  /^list: listed ./,
  /^lapse: .*lapsed/,
];

interface Subject {
  readonly program: Program;
  readonly start: () => Promise<Server>;
  readonly connect: (server: Server, seed: number) => AnyBackend | Promise<AnyBackend>;
  readonly waiting: "poll" | "notify" | "queue";
  /**
   * Redis ends a lease by a plain `HDEL` for half of the TTL that it was granted for, and tells
   * "released" of one that a renewal has cut short since. The core cuts none short.
   */
  readonly cutsShort: boolean;
}

const SUBJECTS: Readonly<Record<string, Subject>> = {
  "redis, unfair": {
    program: redisProgram,
    start: startRedis,
    connect: ({ url }, seed) => redis(url, { prefix: `unfair-${seed}:`, fair: false }),
    waiting: "poll",
    cutsShort: false,
  },
  "redis, fair": {
    program: redisProgram,
    start: startRedis,
    connect: ({ url }, seed) => redis(url, { prefix: `fair-${seed}:` }),
    waiting: "queue",
    cutsShort: false,
  },
  postgres: {
    program: postgresProgram,
    start: startPostgres,
    connect: ({ url }, seed) => postgres(url, { schema: `run${seed}` }),
    waiting: "notify",
    cutsShort: true,
  },
  mariadb: {
    program: mariadbProgram,
    start: startMariadb,
    connect: ({ url }, seed) => mysql(url, { schema: `run${seed}` }),
    waiting: "poll",
    cutsShort: true,
  },
};

for (const [what, { program, start, connect, waiting, cutsShort }] of Object.entries(SUBJECTS)) {
  describeOn(program, what, async () => {
    const server = await start();
    afterAll(() => server.dispose());

    test("answers as the lab's single store does", async () => {
      const seen: Seen = new Map();
      const terms = { ...BASE, cutsShort };
      const watch = waiting === "notify" ? { watch: 2 } : {};
      for (const seed of seedsOf(2)) {
        const world = new World(seed);
        const network = new InstantNetwork(world);
        const store = singleStore({ waiting })(world, network);
        await using real = new Asked(
          await realStore(what, CLIENTS, () => connect(server, seed)),
          terms,
        );
        await using model = new Asked(
          await modelStore("the model", world, store, { clients: CLIENTS, network }),
          terms,
        );
        const steps = drawSteps(seed, { count: 250, menu: { ...MENU, ...watch } });
        await compare({ seed, real, model }, steps, seen);
      }
      mustHaveSeen(seen, 3, WANTED);
      if (waiting === "notify") mustHaveSeen(seen, 3, [/released, and told/]);
    }, LIMIT_MS);
  });
}
