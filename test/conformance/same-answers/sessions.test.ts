import { test } from "vitest";
import { consul } from "../../../src/backends/consul/open.js";
import { etcd } from "../../../src/backends/etcd/open.js";
import { zookeeper } from "../../../src/backends/zookeeper/open.js";
import { sessionStore } from "../../../src/lab/stores/session-store.js";
import { World } from "../../../src/lab/world.js";
import type { AnyBackend } from "../../../src/testing/subject.js";
import { InstantNetwork } from "../../lab/instant-network.js";
import { consulProgram, leaderAmong, startConsulCluster } from "../../servers/consul.js";
import { etcdProgram, startEtcdCluster } from "../../servers/etcd.js";
import { describeOn, describeOptional, type Program } from "../../servers/find.js";
import { startEnsemble, zookeeperProgram } from "../../servers/zookeeper.js";
import { Asked } from "./asked.js";
import { compare, mustHaveSeen, type Seen } from "./compare.js";
import { SessionsAsked } from "./sessions-asked.js";
import { drawSteps, LIMIT_MS, seedsOf, type Menu } from "./steps.js";
import type { Store, Terms } from "./store.js";
import { modelStore, realStore, until } from "./stores.js";

/**
 * The lab's sessions on three members are asked the same as real clusters of three, whose leader is
 * killed between two steps.
 */

const CLIENTS = 2;
const STEPS = 130;
const MENU: Menu = {
  acquire: 8,
  renew: 4,
  "renew several": 2,
  release: 4,
  "release several": 1,
  "clean up": 2,
  break: 2,
  inspect: 4,
  list: 2,
  "keep session": 2,
  "close session": 2,
  "acquire too late": 1,
};
/** The slow steps, which would be many if they were drawn. */
const FIXED = {
  20: { op: "lapse" },
  // Free, then: of a name that is held the stores need not look at the session.
  40: { op: "acquire too late", name: "never held" },
  59: { op: "acquire", name: "kept", holder: "h2" },
  60: { op: "fault", fault: "leader change" },
  61: { op: "renew several", holder: "h2" },
  90: { op: "lapse" },
  110: { op: "fault", fault: "leader change" },
} as const;

/** A cluster, and what is peculiar to its kind. */
interface Cluster {
  readonly connect: () => AnyBackend | Promise<AnyBackend>;
  /** Kills the leader, waits for the next one, and starts the killed one again. */
  readonly changeLeader: () => Promise<void>;
  readonly close: () => Promise<void>;
}

interface Kind {
  readonly program: Program;
  /** That no package brings it. */
  readonly isRare?: boolean;
  readonly start: () => Promise<Cluster>;
  readonly terms: Terms;
  readonly menu?: Menu;
}

interface Member {
  kill(): Promise<void>;
  start(): Promise<void>;
}

async function killLeader<M extends Member>(leader: () => Promise<M>): Promise<void> {
  const former = await leader();
  await former.kill();
  await until("another leader", async () => (await leader()) !== former);
  await former.start();
  await leader();
}

const KINDS: Readonly<Record<string, Kind>> = {
  etcd: {
    program: etcdProgram,
    // Its shortest session.
    terms: { shortTtlMs: 1_000, newEpochs: true },
    menu: { "change session": 2 },
    async start() {
      const cluster = await startEtcdCluster();
      return {
        connect: () => etcd(cluster.hosts),
        changeLeader: () => killLeader(() => cluster.leader()),
        close: () => cluster.dispose(),
      };
    },
  },
  zookeeper: {
    program: zookeeperProgram,
    terms: { shortTtlMs: 400, newEpochs: true },
    async start() {
      // A member that gets little of a busy machine is not to be taken for dead: connections break.
      const patience = { syncLimit: 100, maxSessionTimeout: 2_000_000 };
      const ensemble = await startEnsemble(3, patience);
      const leader = () => ensemble.leader();
      return {
        connect: () => zookeeper(ensemble.url),
        changeLeader: () => killLeader(leader),
        close: () => ensemble.dispose(),
      };
    },
  },
  consul: {
    program: consulProgram,
    isRare: true,
    terms: { shortTtlMs: 400 },
    menu: { watch: 3 },
    async start() {
      const servers = await startConsulCluster();
      const connect = () => consul(servers[0]!.url, { lockDelay: 0, minTtl: "200ms" });
      return {
        connect,
        changeLeader: () => killLeader(() => leaderAmong(servers)),
        close: async () => void (await Promise.all(servers.map((server) => server.dispose()))),
      };
    },
  },
};

function modelSessions(seed: number): Promise<Store> {
  const world = new World(seed);
  const network = new InstantNetwork(world);
  const store = sessionStore(world);
  return modelStore("the model", world, store, {
    clients: CLIENTS,
    network,
    faults: {
      "leader change": async () => {
        store.changeLeader();
        return "another leads";
      },
    },
  });
}

async function compareWith(what: string, { start, terms, menu }: Kind, seed: number, seen: Seen) {
  const { connect, changeLeader, close } = await start();
  const store = await realStore(what, CLIENTS, connect, {
    close,
    faults: {
      "leader change": async () => {
        await changeLeader();
        return "another leads";
      },
    },
  });
  const sessions = (asked: Asked): SessionsAsked => new SessionsAsked(asked);
  await using real = new Asked(store, terms, sessions);
  await using model = new Asked(await modelSessions(seed), terms, sessions);
  const plan = { count: STEPS, menu: { ...MENU, ...menu }, fixed: FIXED };
  await compare({ seed, real, model }, drawSteps(seed, plan), seen);
}

for (const [what, kind] of Object.entries(KINDS)) {
  (kind.isRare === true ? describeOptional : describeOn)(kind.program, what, () => {
    test("answers as the lab's sessions do", async () => {
      const seen: Seen = new Map();
      for (const seed of seedsOf(1)) await compareWith(what, kind, seed, seen);
      mustHaveSeen(seen, 1, [
        /acquire: granted #, the next token/,
        /acquire: granted #, again/,
        /acquire: busy: h has #/,
        /acquire too late: no answer/,
        /lapse: .*lapsed; session gone/,
        /close session: closed; gone/,
        /keep session: alive/,
        /^renew.*: .*renewed/,
        /^after leader change, renew.*: .*renewed/,
        /renew: lost: absent/,
        /^after leader change, release: released/,
        /release: not-held/,
        /break: broken/,
      ]);
      if (kind.menu?.watch !== undefined) mustHaveSeen(seen, 1, [/released, and told/]);
    }, LIMIT_MS);
  });
}
