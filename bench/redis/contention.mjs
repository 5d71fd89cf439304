/**
 * Many clients, each with connections of its own, want one lock again and again.
 *
 * Whoever is inside does nothing for the length of a section; afterwards it pauses. A mutex within
 * the process is what is possible at best: the same timers, and no store to ask.
 */
import { median, printTable, quantile, sleep } from "../figures.mjs";
import { mutexClients, ours, peers } from "./subjects.mjs";

const CASES = [
  { clients: 8, sectionMs: 5, pauseMs: 100 },
  { clients: 32, sectionMs: 5, pauseMs: 100 },
  { clients: 8, sectionMs: 1, pauseMs: 0 },
  { clients: 32, sectionMs: 1, pauseMs: 0 },
];
/** Waits of a starved peer may be long; what has not ended by then is cut off. */
const DRAIN_MS = 3_000;

/** One run: share of the time with somebody inside, sections, waits, and turns by client. */
async function contend(clients, name, { sectionMs, pauseMs }, forMs) {
  const waits = [];
  const turns = clients.map(() => 0);
  let insideMs = 0;
  let overlaps = 0;
  let inside = 0;
  const startMs = performance.now();
  const endMs = startMs + forMs;
  const running = clients.map(async (client, i) => {
    // Nobody starts in step.
    await sleep((i * (pauseMs + sectionMs)) / clients.length);
    while (performance.now() < endMs) {
      const sinceMs = performance.now();
      const leave = await client.enter(name);
      const enteredMs = performance.now();
      if (enteredMs >= endMs) {
        // A wait that the end cut short still was this long.
        waits.push(endMs - sinceMs);
        await leave();
        return;
      }
      if (inside++ > 0) overlaps++;
      await sleep(sectionMs);
      inside--;
      const leftMs = performance.now();
      insideMs += Math.min(leftMs, endMs) - enteredMs;
      waits.push(enteredMs - sinceMs);
      turns[i]++;
      await leave();
      if (pauseMs > 0) await sleep(pauseMs);
    }
  });
  await Promise.race([Promise.allSettled(running), sleep(forMs + DRAIN_MS)]);
  const total = turns.reduce((sum, count) => sum + count, 0);
  return {
    perSecond: (total * 1_000) / forMs,
    utilisation: insideMs / forMs,
    p50: quantile(waits, 0.5),
    p99: quantile(waits, 0.99),
    max: Math.max(...waits),
    smallest: (Math.min(...turns) * turns.length) / total,
    largest: (Math.max(...turns) * turns.length) / total,
    overlaps,
  };
}

async function runCase(port, chosen, rounds, forMs) {
  const makers = { "in-process mutex": undefined, ...ours, ...peers };
  const results = new Map(Object.keys(makers).map((name) => [name, []]));
  for (let round = 0; round < rounds; round++) {
    for (const [name, make] of Object.entries(makers)) {
      const mutex = mutexClients();
      const clients = await Promise.all(
        Array.from({ length: chosen.clients }, () => make?.(port) ?? mutex),
      );
      const lock = `bench:contention:${chosen.clients}:${chosen.sectionMs}:${round}:${name}`;
      await contend(clients, lock, chosen, 300);
      results.get(name).push(await contend(clients, lock, chosen, forMs));
      await Promise.allSettled(clients.map((client) => client.close()));
    }
  }
  const bases = results.get("in-process mutex");
  const of = (runs, field, digits) => median(runs.map((run) => run[field])).toFixed(digits);
  const toMutex = (runs, field) =>
    median(runs.map((run, i) => run[field] / bases[i][field])).toFixed(2);
  const { clients, sectionMs, pauseMs } = chosen;
  console.log(
    `${clients} clients, sections of ${sectionMs} ms, pauses of ${pauseMs} ms: ` +
      `${rounds} rounds of ${forMs / 1_000} s.\n`,
  );
  printTable(
    [
      "", "sections/s", "× mutex", "somebody inside",
      "wait p50, ms", "p99", "longest", "× mutex", "share of the mean",
    ],
    [...results].map(([name, runs]) => [
      name + (runs.some(({ overlaps }) => overlaps > 0) ? " (overlapped!)" : ""),
      of(runs, "perSecond", 0),
      toMutex(runs, "perSecond"),
      of(runs, "utilisation", 2),
      of(runs, "p50", 1),
      of(runs, "p99", 1),
      of(runs, "max", 0),
      toMutex(runs, "max"),
      `${of(runs, "smallest", 2)} to ${of(runs, "largest", 2)}`,
    ]),
  );
}

export async function contention(port, isQuick) {
  for (const chosen of CASES) await runCase(port, chosen, isQuick ? 1 : 3, isQuick ? 1_500 : 4_000);
}
