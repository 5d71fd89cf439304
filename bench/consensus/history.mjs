/** What a pair costs on a name with a past that the server has not been told to forget. */
import { median, nowMs, printTable } from "../figures.mjs";

export async function history(store, server, isQuick) {
  const [steps, perStep, times] = isQuick ? [2, 2_000, 100] : [4, 5_000, 200];
  console.log(`${times} pairs after each ${perStep} acquisitions of one name; no compaction.\n`);
  const [[rawName, makeRaw]] = Object.entries(store.pairs);
  const [raw, tenure] = [await makeRaw(server), await store.pairs.Tenure(server)];
  const rows = [];
  const timed = async ({ pair }, took) => {
    const start = nowMs();
    await pair();
    took.push(nowMs() - start);
  };
  const note = async (when) => {
    const [raws, ours] = [[], []];
    for (let i = 0; i < times; i++) {
      await timed(raw, raws);
      await timed(tenure, ours);
    }
    rows.push([when, median(raws).toFixed(2), median(ours).toFixed(2)]);
  };
  await note("0");
  for (let step = 1; step <= steps; step++) {
    for (let i = 0; i < perStep - times; i++) await tenure.pair();
    await note(String(step * perStep));
  }
  await server.compact();
  await note("compacted");
  for (const subject of [raw, tenure]) await subject.close();
  printTable(["acquisitions before", `${rawName}, ms`, "Tenure, ms"], rows);
}
