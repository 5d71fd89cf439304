import type { Manifest } from "../core/manifest.js";
import { BrokenPromise } from "./broken-promise.js";
import type { Conditions, ConformanceCase } from "./case.js";
import { allCases } from "./cases.js";
import type { Subject } from "./subject.js";
import { openBackend, Trial } from "./trial.js";

/** A case bound to a subject. */
export interface BoundCase {
  readonly id: string;
  readonly title: string;
  /** True, or the reason why the subject is not asked. */
  readonly applies: true | string;
  /**
   * Runs the case on a store of its own.
   *
   * @throws BrokenPromise when the backend does not keep the promise.
   */
  readonly run: () => Promise<void>;
}

/** The two things that the suite needs of a test runner. */
export interface Runner {
  test(title: string, run: () => Promise<void>): void;
  /** Told first what the backend promises, as it says once it is open. */
  begin?(manifest: Manifest): void;
  /** Told of each case that does not apply, so that none is left out in silence. */
  skip?(title: string, reason: string): void;
}

let trials = 0;

/**
 * All cases for one backend. Opens the subject once, to read manifest and powers; with a test
 * runner that wants its tests at once, await it at the top of the test file.
 */
export async function conformance(subject: Subject): Promise<readonly BoundCase[]> {
  return bind(subject, await look(subject));
}

function bind(subject: Subject, conditions: Conditions): readonly BoundCase[] {
  return allCases.map((one) => ({
    id: one.id,
    title: one.title,
    applies: one.applies(conditions),
    run: () => runCase(one, subject, conditions),
  }));
}

/** Registers all cases with a test runner. */
export async function runConformance(subject: Subject, runner: Runner): Promise<void> {
  const conditions = await look(subject);
  runner.begin?.(conditions.manifest);
  for (const { id, title, applies, run } of bind(subject, conditions)) {
    if (applies === true) runner.test(`${id}: ${title}`, run);
    else runner.skip?.(`${id}: ${title}`, applies);
  }
}

async function look(subject: Subject): Promise<Conditions> {
  const store = await subject.open();
  const backend = await openBackend(store);
  const { manifest } = backend;
  await backend.close();
  await store.dispose?.();
  return { manifest, powers: store, subject };
}

async function runCase(
  one: ConformanceCase,
  subject: Subject,
  { manifest }: Conditions,
): Promise<void> {
  const unique = [subject.runId, one.id, ++trials].filter((part) => part !== undefined).join("-");
  const trial = new Trial(subject, await subject.open(), manifest, unique);
  try {
    await one.run(trial);
  } catch (error) {
    // What the case found says more than a store that will not close after it.
    await trial.close().catch(() => undefined);
    if (error instanceof BrokenPromise) throw error;
    throw new BrokenPromise(one.title, `it threw ${String(error)}`, { cause: error });
  }
  await trial.close();
}
