/** B. Waiters that are not told, and very many of them. */
import type { Simulation } from "../simulation.js";
import { singleStore } from "../simulation.js";
import { endOf, grantOf, grantsOf, mustFollow } from "./reading.js";
import type { Scenario } from "./scenario.js";
import { must, mustHold, mustLose } from "./scenario.js";

/** Long, so that it is not an expiry that lets the waiter in. */
const TTL_MS = 60_000;
/** How long a waiter relies on notices alone. */
const FALLBACK_MS = 5_000;
/** How often waiters in a queue say that they live. */
const TOUCH_MS = 300;
/** Longest pause of a waiter that nobody tells. */
const POLL_MS = 1_000;
const WAY_MS = 100;

const PROCESSES = 10;
const WAITERS = 500;
const HERD_TTL_MS = 2_000;
/** Processes that die while one of their waiters holds. */
const DYING = ["P3", "P6"];
/** Requests to the store for each hand-over: enqueue, confirm, release, and a share of the rest. */
const MOST_REQUESTS = 6;

/** One waiter of a herd: takes the lease, holds it for a moment, gives it back. */
async function takeTurn(sim: Simulation, client: Simulation["clients"][number]): Promise<void> {
  const { process, tenure } = client;
  const { signal } = client.heard;
  const lease = await tenure.acquire("job", { ttl: HERD_TTL_MS, wait: "1h", signal });
  await process.point("holds");
  await process.sleep(5);
  await lease.release();
}

export const networkWaitingScenarios: readonly Scenario[] = [
  {
    id: 17,
    name: "lost-notice",
    title: "Nobody tells a waiter of the release: the notice is lost, or it did not listen yet.",
    options: { store: singleStore({ waiting: "notify" }) },
    async play(sim) {
      const queue = singleStore({ waiting: "queue", name: "queue" })(sim.world, sim.network);
      const pairs = [
        ["A", "B", "dropped", sim.store],
        ["C", "D", "released-between", sim.store],
        ["E", "F", "not-subscribed", sim.store],
        ["G", "H", "offer-dropped", queue],
      ] as const;
      sim.network.always({ to: "B", what: "notice" }, { drop: true });
      sim.network.once({ from: "D", what: "subscribe" }, { holdMs: 3_000 });
      sim.network.once({ to: "F", what: "subscribe reply" }, { breaks: true });
      sim.network.always({ to: "F", what: "notice" }, { drop: true });
      sim.network.always({ to: "H", what: "offer" }, { drop: true });
      for (const [first, second, key, store] of pairs) {
        const turn = { turns: 1, ttlMs: TTL_MS, key, resource: key } as const;
        const [holder, waiter] = [
          await sim.client(first, {}, store), await sim.client(second, {}, store),
        ];
        void sim.work(holder, { ...turn, restMs: [0, 0], thinkMs: [2_000, 2_200] });
        void sim.work(waiter, { ...turn, restMs: [300, 400], thinkMs: [100, 200] });
      }
      await sim.world.run(60_000);
    },
    check(result) {
      mustHold(result);
      // One after the other, as always: the fence makes no difference.
      mustLose(result, []);
      const waits = [
        ["A", "B", "dropped", FALLBACK_MS],
        // It asks again once it listens, and finds the name free.
        ["C", "D", "released-between", 3_000],
        // It knows that it is not told of anything, and polls.
        ["E", "F", "not-subscribed", POLL_MS],
        ["G", "H", "offer-dropped", TOUCH_MS],
      ] as const;
      for (const [first, second, key, mostMs] of waits) {
        const { atMs } = endOf(result, grantOf(result, key, first));
        const [sure] = result
          .of("believes")
          .filter((look) => look.key === key && look.client === second);
        must(sure !== undefined, `${second} was never granted ${key}`);
        mustFollow(sure!.atMs, atMs, mostMs + WAY_MS, `the grant of ${key} to ${second}`);
      }
    },
  },
  {
    id: 18,
    name: "herd",
    title: "500 wait for one name in a queue, each for a moment, and two of their processes die.",
    options: { store: singleStore({ waiting: "queue" }) },
    async play(sim) {
      for (let i = 0; i < PROCESSES; i++) {
        const client = await sim.client(`P${i}`);
        const { process } = client;
        for (let nth = 0; nth < WAITERS / PROCESSES; nth++) {
          takeTurn(sim, client).catch((error: unknown) => sim.world.fail(error));
        }
        // Each place is taken up once: the tenth holder of the process is its last.
        let held = 0;
        const onHold = (): void => {
          if (++held === 10) process.kill();
          else process.onPoint("holds", onHold);
        };
        if (DYING.includes(process.name)) process.onPoint("holds", onHold);
      }
      await sim.world.run(60_000);
    },
    check(result) {
      mustHold(result);
      // Nothing is written: the fence makes no difference.
      mustLose(result, []);
      const grants = grantsOf(result, "job");
      const dying = (client: string): boolean => DYING.includes(client);
      const lived = grants.filter(({ client }) => !dying(client));
      const living = (WAITERS / PROCESSES) * (PROCESSES - DYING.length);
      must(lived.length === living, `${lived.length} of ${living} waiters were served`);
      const places = result.of("wait").map(({ holder }) => holder);
      const turns = grants.map(({ holder }) => places.indexOf(holder)).filter((nth) => nth >= 0);
      const isFair = turns.every((nth, i) => i === 0 || nth > turns[i - 1]!);
      must(isFair, "the waiters were not served in the order of their arrival");
      const asked = result.of("message").filter(({ to }) => to === "store").length;
      const each = asked / grants.length;
      must(each <= MOST_REQUESTS, `${each.toFixed(1)} requests for each hand-over`);
    },
  },
];
