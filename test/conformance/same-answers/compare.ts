/** Asks two stores the same, step by step, and says where they part. */
import type { Step } from "./steps.js";
import type { Store } from "./store.js";

/** A store, and how it is asked. */
export interface Asking {
  readonly store: Store;
  ask(step: Step): Promise<string>;
  /** Why there was no answer last. */
  readonly failure?: string | undefined;
}

/** Two stores that are asked the same. */
export interface Pair {
  readonly seed: number;
  readonly real: Asking;
  readonly model: Asking;
}

/** The answers parted: the seed, and every step so far, are in the message. */
export class Disagreement extends Error {
  constructor(text: string) {
    super(text);
    this.name = "Disagreement";
  }
}

/**
 * How often each kind of answer was given, by step, after the last fault: to see what the random
 * order brought about.
 */
export type Seen = Map<string, number>;

/**
 * Goes through the steps, and gives the answers to them.
 *
 * The model's time goes on by what the real store needed, so that a machine that stops for a while
 * ends the same leases and offers in both.
 *
 * @throws Disagreement
 */
export async function compare(
  { seed, real, model }: Pair,
  steps: readonly Step[],
  seen: Seen = new Map(),
): Promise<readonly string[]> {
  const so: string[] = [];
  const answers: string[] = [];
  let after = "";
  for (const [i, step] of steps.entries()) {
    const [realFromMs, modelFromMs] = [real.store.nowMs(), model.store.nowMs()];
    const text = `${i}. ${shortly(step)}`;
    const tell = (why: string): Disagreement =>
      new Disagreement([`seed ${seed}: ${why}`, ...so].join("\n"));
    const ask = async (asked: Asking): Promise<string> => {
      try {
        return await asked.ask(step);
      } catch (error) {
        so.push(text);
        const told = tell(`${asked.store.what} failed at step ${i}: ${String(error)}`);
        told.cause = error;
        throw told;
      }
    };
    const answer = await ask(real);
    const modelled = await ask(model);
    if (answer !== modelled) {
      so.push(text, `   ${real.store.what}: ${answer}`, `   ${model.store.what}: ${modelled}`);
      const { failure } = real;
      if (failure !== undefined) so.push(`   last without an answer: ${failure}`);
      throw tell(`${real.store.what} and ${model.store.what} part at step ${i}`);
    }
    so.push(`${text}: ${answer}`);
    answers.push(answer);
    if (step.op === "fault") after = `after ${step.fault}, `;
    const kind = `${after}${step.op}: ${answer.replace(/#\d+/g, "#").replace(/\bh\d\w*/g, "h")}`;
    seen.set(kind, (seen.get(kind) ?? 0) + 1);
    const tookMs = real.store.nowMs() - realFromMs;
    await model.store.pass(Math.max(1, tookMs - (model.store.nowMs() - modelFromMs)));
  }
  return answers;
}

/** Fails unless answers like each of these were given at least so often. */
export function mustHaveSeen(seen: Seen, least: number, wanted: readonly RegExp[]): void {
  const missed = wanted.filter((like) => {
    let count = 0;
    for (const [kind, times] of seen) if (like.test(kind)) count += times;
    return count < least;
  });
  if (missed.length === 0) return;
  const all = [...seen].map(([kind, times]) => `${times} × ${kind}`).sort();
  throw new Error(`fewer than ${least} of ${missed.join(" ")} among:\n${all.join("\n")}`);
}

function shortly({ op, name, holder, client, nth, fault, member }: Step): string {
  const what = fault === undefined ? `${name} by ${holder}` : `${fault} ${member}`;
  return `${op} ${what} (client ${client}, nth ${nth.toFixed(3)}, member ${member})`;
}
