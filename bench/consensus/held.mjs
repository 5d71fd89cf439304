/** What a thousand leases cost that are only held: requests, and this process's time. */
import { nowMs, printTable, sleep } from "../figures.mjs";

const LEASES = 1_000;

export async function held(store, server, isQuick) {
  const forMs = isQuick ? 12_000 : 60_000;
  console.log(`${LEASES} leases of 30 s held for ${forMs / 1_000} s.\n`);
  const client = await store.ours(server);
  const names = Array.from({ length: LEASES }, (_, i) => `bench:held:${i}`);
  const leases = [];
  for (let from = 0; from < LEASES; from += 100) {
    const some = names.slice(from, from + 100);
    leases.push(...(await Promise.all(some.map((name) => client.hold(name)))));
  }
  const before = await server.requests();
  const cpu = process.cpuUsage();
  const start = nowMs();
  await sleep(forMs);
  const tookMs = nowMs() - start;
  const { user, system } = process.cpuUsage(cpu);
  const after = await server.requests();
  const lost = leases.filter(({ state }) => state !== "held").length;
  await client.close();
  const perPeriod = (count) => ((count * 10_000) / tookMs).toFixed(1);
  const rows = [...after]
    .map(([kind, count]) => [kind, count - (before.get(kind) ?? 0)])
    .filter(([, count]) => count > 0);
  printTable(
    ["", ""],
    [
      ...rows.map(([kind, count]) => [`${kind}, per 10 s`, perPeriod(count)]),
      ["share of one core", `${((user + system) / 10 / tookMs).toFixed(2)} %`],
      ["lost", lost],
    ],
  );
}
