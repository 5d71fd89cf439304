/** A free lock taken and given back, one pair at a time, in turns with the raw operations. */
import { inTurns, median, nowMs, printTable, quantile, ratio } from "../figures.mjs";

export async function pairs(store, server, isQuick) {
  const [rounds, times] = isQuick ? [12, 20] : [100, 50];
  console.log(`One pair at a time: ${rounds} rounds of ${times} pairs, as many before.\n`);
  const subjects = {};
  const opened = [];
  for (const [name, make] of Object.entries(store.pairs)) {
    const subject = await make(server);
    opened.push(subject);
    subjects[name] = async () => {
      // What it costs that a server keeps its history is a part of its own.
      await server.compact?.();
      const start = nowMs();
      for (let i = 0; i < times; i++) await subject.pair();
      return (nowMs() - start) / times;
    };
  }
  const took = await inTurns(subjects, rounds);
  for (const subject of opened) await subject.close();
  const [base] = took.values();
  const ratios = (values) => values.map((value, i) => value / base[i]);
  printTable(
    ["", "ms per pair", "× raw", "10 % to 90 % of the rounds"],
    [...took].map(([name, values]) => [
      name,
      median(values).toFixed(2),
      ratio(values, base).toFixed(2),
      [0.1, 0.9].map((share) => quantile(ratios(values), share).toFixed(2)).join(" to "),
    ]),
  );
}
