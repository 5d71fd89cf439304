// A report at set times, on one of twenty replicas. Here all of them live in one process and the
// report is due every second; in earnest each is a machine of its own, on `postgres://…`.
//   node daily-report.mjs jobs.db
import { schedule } from "tenure/schedule";

const REPLICAS = 20;
const store = `sqlite:${process.argv[2] ?? "jobs.db"}` as const;
const sent: string[] = []; // what the report would have sent, and who sent it

const replicas = await Promise.all(
  Array.from({ length: REPLICAS }, (_, i) =>
    schedule(store, "report", "* * * * * *", (fire) => {
      // The token goes with everything that the report writes: see the guide to fences.
      sent.push(`${fire.fireMs} by replica ${i} with token ${fire.token}`);
    }),
  ),
);
while (sent.length < 2) await new Promise((next) => setTimeout(next, 50));
await Promise.all(replicas.map((replica) => replica.close()));

const fires = new Set(sent.map((line) => line.split(" ")[0]));
console.log(`${sent.length === fires.size ? "each" : "NOT each"} fire ran on one of ${REPLICAS}`);
