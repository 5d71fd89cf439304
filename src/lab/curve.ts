/**
 * What a TTL costs and what it buys, from simulated runs: a short one lets the next holder in soon
 * after a crash, and lets it in while a paused holder still works; no TTL does neither.
 */
import { Simulation, type Client } from "./simulation.js";
import type { EventOf } from "./history.js";

/** Settings of a curve. */
export interface CurveOptions {
  /** Milliseconds. Default 500 ms to 60 s. */
  readonly ttls?: readonly number[];
  /** Default 1. */
  readonly seed?: number;
  /** Crashes for each TTL, with and without renewal. Default 40. */
  readonly crashes?: number;
  /** Turns of work for each TTL, with and without renewal. Default 600. */
  readonly turns?: number;
}

/** One TTL, with renewal or without. */
export interface CurvePoint {
  readonly ttlMs: number;
  readonly renew: boolean;
  /** From a holder's crash to the next grant, milliseconds. */
  readonly recovery: { readonly meanMs: number; readonly maxMs: number };
  /** Turns that were still at work when somebody else had been granted the lease. */
  readonly overlaps: number;
  readonly turns: number;
}

/** What the holders of the measurement do; told with every curve. */
export const CURVE_WORK = {
  /** Length of a turn's work, evenly between, milliseconds. */
  workMs: [200, 4_000],
  /** Share of the turns in which the process is paused. */
  pauses: 0.1,
  /** Length of a pause, evenly on a logarithmic scale, milliseconds. */
  pauseMs: [10, 60_000],
} as const;

const TTLS = [500, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000, 60_000] as const;
const NAME = "job";
const MAX_WAIT = "1h";

/** Measures all TTLs. The same settings give the same curve. */
export async function curve(options: CurveOptions = {}): Promise<readonly CurvePoint[]> {
  const { ttls = TTLS, seed = 1, crashes = 40, turns = 600 } = options;
  const points: CurvePoint[] = [];
  for (const ttlMs of ttls) {
    for (const renew of [true, false]) {
      const waits: number[] = [];
      for (let nth = 0; nth < crashes; nth++) {
        waits.push(await recoveryMs(seed + nth, ttlMs, renew));
      }
      const recovery = {
        meanMs: Math.round(waits.reduce((sum, ms) => sum + ms, 0) / waits.length),
        maxMs: Math.round(Math.max(...waits)),
      };
      const overlaps = await overlapsOf(seed, ttlMs, renew, turns);
      points.push({ ttlMs, renew, recovery, overlaps, turns });
    }
  }
  return points;
}

/** From the death of a holder, some time after its grant, to the grant of one that waits. */
async function recoveryMs(seed: number, ttlMs: number, renew: boolean): Promise<number> {
  const sim = new Simulation({ seed, fence: "none" });
  const { world } = sim;
  const [a, b] = [await sim.client("A"), await sim.client("B")];
  const options = { ttl: ttlMs, wait: MAX_WAIT, renew } as const;
  await world.until(a.tenure.acquire(NAME, options), ttlMs);
  const next = b.tenure.acquire(NAME, options);
  // Without renewals it is over by itself after one TTL: it dies before that.
  const livesMs = world.draws.fork("crash").between(0, renew ? 3 * ttlMs : ttlMs * 0.95);
  await world.run(world.nowMs + livesMs);
  const diedMs = world.nowMs;
  a.process.kill();
  await world.until(next, 10 * ttlMs + 60_000);
  return grants(sim).at(-1)!.atMs - diedMs;
}

/** How many turns of two holders that take turns outlived their lease, and met the next. */
async function overlapsOf(
  seed: number,
  ttlMs: number,
  renew: boolean,
  turns: number,
): Promise<number> {
  const sim = new Simulation({ seed, fence: "none" });
  const done = new Map<string, number>();
  const clients = [await sim.client("A"), await sim.client("B")];
  const working = clients.map(async (client) => {
    while (done.size < turns) {
      const { holder, doneMs } = await turn(sim, client, ttlMs, renew);
      if (done.size < turns) done.set(holder, doneMs);
    }
  });
  const most = CURVE_WORK.workMs[1] + CURVE_WORK.pauseMs[1] + 4 * ttlMs;
  await sim.world.until(Promise.all(working), (turns + 2) * most);
  const all = grants(sim);
  return all.filter(({ holder }, nth) => {
    const next = all[nth + 1];
    const doneMs = done.get(holder);
    return next !== undefined && doneMs !== undefined && next.atMs < doneMs;
  }).length;
}

/** Takes the lease, works, and gives it back; looks at no clock. */
async function turn(
  sim: Simulation,
  { process, tenure }: Client,
  ttlMs: number,
  renew: boolean,
): Promise<{ readonly holder: string; readonly doneMs: number }> {
  const { world } = sim;
  const draws = world.draws.fork("turn");
  const [shortest, longest] = CURVE_WORK.pauseMs;
  const workMs = draws.between(...CURVE_WORK.workMs);
  const pauseMs = shortest * (longest / shortest) ** draws.uniform();
  const [isPaused, when] = [draws.chance(CURVE_WORK.pauses), draws.uniform()];
  const lease = await tenure.acquire(NAME, { ttl: ttlMs, wait: MAX_WAIT, renew });
  if (isPaused) world.after(when * workMs, () => process.pauseFor(pauseMs));
  await process.sleep(workMs);
  const doneMs = world.nowMs;
  await lease.release();
  return { holder: lease.holder, doneMs };
}

function grants(sim: Simulation): readonly EventOf<"grant">[] {
  return sim.world.history.of("grant");
}
