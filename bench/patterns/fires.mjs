/**
 * A fire that many replicas ask for: who gets it runs, the others are refused. Beside pg-boss,
 * whose schedule sends one job a minute under a singleton key, and fetches and completes it.
 */
import PgBoss from "pg-boss";
import { cronCoordinator } from "tenure/schedule";
import { inTurns, median, printTable } from "../figures.mjs";
import { withServer } from "../sql/servers.mjs";

const MINUTE_MS = 60_000;

const subjects = {
  async "**Tenure**: a fire claimed, refused to another replica, and finished"(url) {
    const replicas = [await cronCoordinator(url), await cronCoordinator(url)];
    const begunMs = Date.now() - 1e6 * MINUTE_MS;
    return {
      async fire(n) {
        const key = `report:${new Date(begunMs + n * MINUTE_MS).toISOString()}`;
        if (!(await replicas[0].shouldRun(key, 30_000))) throw new Error("not claimed");
        if (await replicas[1].shouldRun(key, 30_000)) throw new Error("claimed twice");
        await replicas[0].onComplete(key);
      },
      close: () => Promise.all(replicas.map((replica) => replica.close())),
    };
  },
  async "pg-boss: a job sent, refused to another replica, fetched and completed"(url) {
    const options = { connectionString: url, supervise: false, schedule: false };
    const replicas = [new PgBoss(options), new PgBoss(options)];
    for (const replica of replicas) {
      replica.on("error", () => undefined);
      await replica.start();
    }
    await replicas[0].createQueue("report");
    return {
      async fire(n) {
        const once = { singletonKey: `report ${n}`, singletonSeconds: 60 };
        if ((await replicas[0].send("report", null, once)) === null) throw new Error("not sent");
        if ((await replicas[1].send("report", null, once)) !== null) throw new Error("sent twice");
        const [job] = await replicas[0].fetch("report");
        await replicas[0].complete("report", job.id);
      },
      close: () => Promise.all(replicas.map((one) => one.stop({ graceful: false, wait: false }))),
    };
  },
};

export async function fires(isQuick) {
  const [rounds, times] = isQuick ? [2, 50] : [20, 200];
  for (const isFlushed of [false, true]) {
    await withServer("postgres", isFlushed, async (url) => {
      const turns = {};
      const closing = [];
      for (const [name, open] of Object.entries(subjects)) {
        const { fire, close } = await open(url);
        closing.push(close);
        let n = 0;
        turns[name] = async () => {
          const startNs = process.hrtime.bigint();
          for (let i = 0; i < times; i++) await fire(n++);
          return Number(process.hrtime.bigint() - startNs) / 1e6 / times;
        };
      }
      const took = await inTurns(turns, rounds);
      for (const close of closing) await close();
      printTable(
        [`fires, ${isFlushed ? "each commit flushed" : "nothing flushed"}`, "a second"],
        [...took].map(([name, values]) => [name, (1_000 / median(values)).toFixed(0)]),
      );
    });
  }
}
