// Runs of an agent: the steps of one run one after the other, whatever worker has them; runs beside
// each other. A worker that dies loses its step to another once its lease is over.
//   node agent-runs.mjs runs.db
import { queue } from "tenure/queue";

const steps = await queue(`sqlite:${process.argv[2] ?? "runs.db"}`, { name: "agent" });
for (const step of ["plan", "search", "write"]) {
  for (const run of ["run-1", "run-2"]) await steps.add({ key: run, payload: { step } });
}

const log: string[] = [];
const active = new Set<string>();
const done = new AbortController();
await steps.work(
  async ({ key, payload }) => {
    if (active.has(key)) throw new Error(`${key} runs twice`);
    active.add(key);
    await new Promise((next) => setTimeout(next, 10));
    active.delete(key);
    log.push(`${key} ${(payload as { step: string }).step}`);
    if (log.length === 6) done.abort();
  },
  { concurrency: 4, pollEvery: 20, signal: done.signal },
);
await steps.close();

for (const run of ["run-1", "run-2"]) console.log(log.filter((line) => line.startsWith(run)));
