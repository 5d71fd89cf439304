/** From the release of one client to the grant of another, in numbers of commits. */
import { median, nowMs, printTable, quantile, sleep } from "../figures.mjs";

const LOCK = "bench:handover";

export async function handover(store, server, isQuick) {
  const rounds = isQuick ? 30 : 150;
  console.log(`${rounds} hand-overs between two clients; a commit is measured before each.\n`);
  const clients = [await store.ours(server), await store.ours(server)];
  const [times, commits, inCommits] = [[], [], []];
  let leave = await clients[0].enter(LOCK);
  for (let round = 0; round < rounds; round++) {
    const next = clients[(round + 1) % 2].enter(LOCK);
    // Until it waits, and has its notice set up.
    await sleep(200);
    let start = nowMs();
    await server.commit();
    const commitMs = nowMs() - start;
    start = nowMs();
    const left = leave();
    leave = await next;
    const tookMs = nowMs() - start;
    await left;
    times.push(tookMs);
    commits.push(commitMs);
    inCommits.push(tookMs / commitMs);
  }
  await leave();
  for (const client of clients) await client.close();
  const row = (name, values) => [
    name,
    ...[0.1, 0.5, 0.9].map((share) => quantile(values, share).toFixed(2)),
  ];
  printTable(
    ["", "10 %", "median", "90 %"],
    [
      row("one commit, ms", commits),
      row("hand-over, ms", times),
      row("hand-over, commits of the same round", inCommits),
    ],
  );
  console.log(`median to median: ${(median(times) / median(commits)).toFixed(2)} commits\n`);
}
