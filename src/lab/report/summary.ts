/** The outcome of a run in a few lines, the same in every kind of report. */
import { clashSentence } from "./clashes.js";
import { seconds, withNames } from "./names.js";
import type { Story } from "./story.js";

/** Milliseconds in which beliefs overlapped. */
function overlapMs({ overlaps }: Pick<Story, "overlaps">): number {
  return overlaps.reduce((sum, { fromMs, toMs }) => sum + toMs - fromMs, 0);
}

/** One line: the store, the beliefs, the stale writes, the lost updates. */
export function verdictLine(story: Story): string {
  const store = story.verdicts.find(({ id }) => id === "I1")?.is;
  const writes = story.operations.filter(({ kind }) => kind === "write");
  const refused = story.operations.filter(({ accepted }) => !accepted).length;
  const lost = story.clashes.length;
  const exclusion = { pass: "OK", fail: "BROKEN", unknown: "unknown" }[store ?? "unknown"];
  return [
    `mutual exclusion at store ${exclusion}`,
    `beliefs overlapped ${seconds(overlapMs(story))}`,
    `writes accepted ${writes.filter(({ accepted }) => accepted).length}, stale refused ${refused}`,
    `lost updates ${lost}`,
  ].join(" | ");
}

/** What happened that should not have, or what was refused, one sentence each. */
export function sentences(story: Story): string[] {
  const { names, clashes, operations, refusals } = story;
  const lost = clashes.map((clash) => clashSentence(clash, names));
  const refused = operations
    .filter(({ accepted }) => !accepted)
    .map((one) => {
      const about = `${one.client}'s ${one.kind} with token ${names(one.token)}`;
      return `${about} was refused: ${refusals.get(one) ?? "stale"}.`;
    });
  const broken = story.violations
    .filter(({ invariant }) => invariant !== "I5")
    .map(({ invariant, text }) => `${invariant}: ${withNames(text, names)}.`);
  return [...lost, ...counted(refused), ...broken];
}

/** Each sentence once, with how often it was true. */
function counted(texts: readonly string[]): string[] {
  const times = new Map<string, number>();
  for (const text of texts) times.set(text, (times.get(text) ?? 0) + 1);
  return [...times].map(([text, n]) => (n === 1 ? text : `${text} (${n} times)`));
}

/** The verdicts by outcome, in one line. */
function verdictList({ verdicts }: Story): string {
  const ids = (wanted: "pass" | "fail" | "unknown"): string => {
    const own = verdicts.filter(({ is }) => is === wanted).map(({ id }) => id);
    return own.length === 0 ? "" : `${wanted} ${own.join(" ")}`;
  };
  return (["pass", "fail", "unknown"] as const)
    .map(ids)
    .filter((part) => part !== "")
    .join(" | ");
}

/** Why invariants are unknown: those with one reason together. */
function unknowns({ verdicts }: Pick<Story, "verdicts">): readonly string[] {
  const byReason = new Map<string, string[]>();
  for (const { id, why } of verdicts) {
    if (why === undefined) continue;
    const ids = byReason.get(why) ?? [];
    ids.push(id);
    byReason.set(why, ids);
  }
  return [...byReason].map(([why, ids]) => `${ids.join(" ")}: ${why}`);
}

/** All of it as lines of text. */
export function summaryOf(story: Story): string[] {
  const { replay } = story;
  const renamed = [...new Set(story.grants.map(({ token }) => token))]
    .filter((token) => token !== "0" && story.names(token) !== token)
    .slice(0, 1)
    .map((token) => `token ${story.names(token)} is ${token}; later ones count on`);
  return [
    `verdict   ${verdictLine(story)}`,
    `checks    ${verdictList(story)}`,
    ...unknowns(story).map((text, nth) => `${nth === 0 ? "unknown " : "        "}  ${text}`),
    ...sentences(story)
      .slice(0, 8)
      .map((text) => `          ${text}`),
    ...(replay === undefined ? [] : [`replay    ${replay}`]),
    ...(story.traceHash === undefined ? [] : [`trace     ${story.traceHash}`]),
    ...renamed.map((text) => `tokens    ${text}`),
  ];
}
