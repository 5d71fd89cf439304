/** What the verbs of `tenure lab` read from the command line alike. */
import { writeFileSync } from "node:fs";
import { UsageError, word } from "../../arguments.js";
import { meantOf } from "../../nearest.js";
import type { FenceMode } from "../../../lab/resource.js";
import { SCENARIOS } from "../../../lab/scenarios/play.js";
import type { Scenario } from "../../../lab/scenarios/scenario.js";

/** The ways to protect the resource, from none to full. */
export const FENCES: readonly FenceMode[] = ["none", "naive", "armed"];

/** The largest seed: 32 bits are what a run is made of. */
const MAX_SEED = 0xffff_ffff;

/** The fence of `--fence`; armed when it was not given. */
export function fenceFlag(value: string | undefined): FenceMode {
  return word(value, "--fence", FENCES, "armed");
}

/** The seed of `--seed`; 1 when it was not given. @throws UsageError naming seeds near it. */
export function seedFlag(value: string | undefined, flag = "--seed"): number {
  if (value === undefined) return 1;
  const seed = Number(value);
  if (/^\d{1,10}$/.test(value) && seed <= MAX_SEED) return seed;
  const got = JSON.stringify(value);
  const near = Number.isFinite(seed) ? Math.min(MAX_SEED, Math.max(0, Math.floor(seed))) : 1;
  const others = [near, near === MAX_SEED ? near - 1 : near + 1].join(" or ");
  throw new UsageError(
    `${flag} is a whole number from 0 to ${MAX_SEED}, got ${got}`,
    `seeds near it are ${others}`,
  );
}

/** The scenario of this name. @throws UsageError naming those that are like it. */
export function scenarioOperand(operands: readonly string[], usage: string): Scenario {
  const [name, extra] = operands;
  if (name === undefined) {
    throw new UsageError("SCENARIO is missing", `${usage}; tenure lab list names them`);
  }
  if (extra !== undefined) {
    throw new UsageError(`unexpected argument ${JSON.stringify(extra)}`, usage);
  }
  const found = SCENARIOS.find(
    (scenario) => scenario.name === name || String(scenario.id) === name,
  );
  if (found !== undefined) return found;
  const names = SCENARIOS.map((scenario) => scenario.name);
  throw new UsageError(
    `there is no scenario ${JSON.stringify(name)}`,
    `${meantOf(name, names)}tenure lab list names all`,
  );
}

/** Writes a report to a file. @throws UsageError when it cannot be written. */
export function writeReport(file: string, flag: string, text: string): void {
  try {
    writeFileSync(file, text);
  } catch (error) {
    throw new UsageError(`${flag}: ${(error as Error).message}`);
  }
}
