/** `tenure lab attack`: freezes a worker of the user's, and sees whether its late write lands. */
import { machineTimers } from "../../../platform/clocks.js";
import type { Tenure } from "../../../core/tenure.js";
import type { FencingToken } from "../../../core/token.js";
import type { Inspection } from "../../../core/inspection.js";
import { duration, parse, required, STORE_FLAGS, unexpected, UsageError } from "../../arguments.js";
import type { Command } from "../../command.js";
import { checkPlatform, CLOSE_MS, within } from "../../command-end.js";
import { splitCommand } from "../../command-plan.js";
import { EXIT } from "../../exit-codes.js";
import { StartError } from "../../guarded-child.js";
import { print, printJson, readable, say } from "../../output.js";
import { Signals } from "../../signals.js";
import { chooseStore, openStore } from "../../store.js";
import { AttackedWorker, neverHeld, pause, readResource, until } from "./attacked-worker.js";

const HELP = `Freezes a worker of yours past its lease, lets another holder in, wakes the worker,
and looks whether what it writes then still lands: whether your resource is fenced.

usage: tenure lab attack [NAME] --resource COMMAND [flags] -- WORKER [ARGUMENT…]

  tenure lab attack --resource 'cat balance.txt' -- node worker.js
  tenure lab attack --resource 'cat balance.txt' --successor 'node worker.js' -- node worker.js

The worker is a real process that takes a lease in this store (it finds it in TENURE_STORE), and
writes while it holds it. Use a store and a resource that are there to be spoilt.

flags
  --resource COMMAND   prints what the resource holds; run by sh, before and after
  --successor COMMAND  run by sh under the lease that was taken over, with TENURE_TOKEN and the
                       rest: what your next worker would do. Without it nothing is written in
                       between, and only a look at the lease, or a held check, refuses
  --freeze-after TIME  from the grant to the freeze; default 300ms. It should lie between what the
                       worker checks and what it writes
  --within TIME        how long the worker may take to get its lease; default 30s
  --watch TIME         how long to look for the late write; default 10s, or to the worker's end
  --store URL          the store; else $TENURE_STORE, else a file in your state folder
  --json               print the outcome as one line of JSON

NAME is the lease to wait for; without it, the first that appears in the store.

exit code: 0 the late write did not land   1 it landed   2 it cannot be told   64 wrong usage
69 the worker took no lease, or the store is unavailable   126, 127 the worker cannot be run`;

const FLAGS = {
  ...STORE_FLAGS,
  resource: { type: "string" },
  successor: { type: "string" },
  "freeze-after": { type: "string" },
  within: { type: "string" },
  watch: { type: "string" },
} as const;

const USAGE = "tenure lab attack [NAME] --resource COMMAND [flags] -- WORKER [ARGUMENT…]";

/** Looks in a row at which a change counts as one that stays. */
const STAYING_LOOKS = 4;

interface Plan {
  readonly name: string | undefined;
  readonly resource: string;
  readonly successor: string | undefined;
  readonly freezeAfterMs: number;
  readonly withinMs: number;
  readonly watchMs: number;
  readonly store: string;
  readonly worker: readonly string[];
  readonly json: boolean;
}

function planOf(argv: readonly string[], folderStore: string): Plan {
  const { own, words } = splitCommand(argv);
  const { values, operands } = parse(own, FLAGS);
  const [name, extra] = operands;
  if (extra !== undefined) throw unexpected(extra, USAGE);
  if (words === undefined || words.length === 0) {
    throw new UsageError("the WORKER must follow after --", USAGE);
  }
  const hint = "a command that prints what the resource holds, such as 'cat balance.txt'";
  return {
    name,
    resource: required(values.resource, "--resource", hint),
    successor: values.successor,
    freezeAfterMs: duration(values["freeze-after"], "--freeze-after", { zero: true }) ?? 300,
    withinMs: duration(values.within, "--within") ?? 30_000,
    watchMs: duration(values.watch, "--watch") ?? 10_000,
    store: folderStore,
    worker: words,
    json: values.json === true,
  };
}

/** What the attack came to. */
interface Outcome {
  readonly name: string;
  readonly frozen: { readonly token: string; readonly holder: string };
  readonly successor: { readonly token: string };
  /** What the resource held: at the start, at the freeze, before the waking, at the end. */
  readonly seen: readonly [string, string, string, string];
  readonly worker: string;
  readonly verdict: "landed" | "refused" | "untold";
}

async function run(argv: readonly string[]): Promise<number> {
  checkPlatform("lab attack");
  const { values } = parse(splitCommand(argv).own, FLAGS);
  const choice = chooseStore(values.store);
  const plan = planOf(argv, choice.url);
  const signals = new Signals();
  const tenure = await openStore(choice, { purpose: "efficiency" });
  try {
    const outcome = await attack(plan, tenure, signals.waiting);
    report(plan, outcome);
    return { landed: EXIT.broken, refused: EXIT.ok, untold: EXIT.untold }[outcome.verdict];
  } catch (error) {
    if (!(error instanceof StartError)) throw error;
    say(`${plan.worker[0]}: cannot be run (${error.message})`);
    return error.code === "ENOENT" ? EXIT.notFound : EXIT.cannotRun;
  } finally {
    signals.close();
    await within(tenure.close(), CLOSE_MS);
  }
}

type AnyTenure = Tenure<FencingToken | undefined>;

async function attack(plan: Plan, tenure: AnyTenure, signal: AbortSignal): Promise<Outcome> {
  const env = { ...process.env, TENURE_STORE: plan.store };
  const look = (): string => readResource(plan.resource, env);
  const atStart = look();
  const before = await holders(tenure, plan.name);
  const worker = await AttackedWorker.start(plan.worker, env);
  try {
    const late = (): Error => neverHeld(worker, plan.store, readable(plan.withinMs));
    const isNew = ({ holder }: Inspection): boolean => !before.has(holder ?? "");
    const appeared = async (): Promise<Inspection | undefined> => {
      const hasEnded = worker.end !== undefined;
      const found = (await leases(tenure, plan.name)).find(isNew);
      if (found === undefined && hasEnded) throw late();
      return found;
    };
    const held = await until(appeared, plan.withinMs, signal, late);
    const { name } = held;
    note(plan, `the worker (${worker.pid}) holds ${name}, token ${held.token ?? "none"}`);
    await pause(plan.freezeAfterMs);
    worker.freeze();
    note(plan, "it is frozen; waiting for its lease to end");
    const limitMs = 2 * (held.expiresInMs ?? 0) + 60_000;
    const lease = await tenure.acquire(name, { ttl: "60s", wait: limitMs, signal });
    note(plan, `another holder is in, token ${lease.token ?? "none"}`);
    const token = String(lease.token ?? "none");
    // Not at the signal: a write under way then still ends, and belongs to what was before.
    const isDone = worker.end !== undefined;
    const atFreeze = look();
    if (plan.successor !== undefined) {
      const own = { TENURE_NAME: name, TENURE_TOKEN: token, TENURE_HOLDER: lease.holder };
      readResource(plan.successor, { ...env, ...own, TENURE_TTL_MS: String(lease.ttlMs) });
    }
    const beforeWaking = look();
    worker.wake();
    note(plan, "the worker is awake again");
    const atEnd = await watch(plan, worker, look, beforeWaking, signal);
    const seen = [atStart, atFreeze, beforeWaking, atEnd] as const;
    const end = worker.end ?? "still running";
    const frozen = { token: String(held.token ?? "none"), holder: held.holder ?? "unknown" };
    return {
      name,
      frozen,
      successor: { token },
      seen,
      worker: end,
      verdict: verdictOf(seen, isDone),
    };
  } finally {
    await worker.finish();
  }
}

/**
 * What the resource holds when it has changed, the worker has ended, or the time is over. A file
 * that is being written is seen half, and may be as before in the end: a change counts once it
 * stays.
 */
async function watch(
  plan: Plan,
  worker: AttackedWorker,
  look: () => string,
  before: string,
  signal: AbortSignal,
): Promise<string> {
  let isOver = false;
  let last: string | undefined = before;
  let looks = 0;
  let lateLooks = 0;
  const timer = machineTimers.after(plan.watchMs, () => (isOver = true));
  try {
    return await until(
      () => {
        // In this order: what it wrote before its end is seen by the look after it.
        const hasEnded = worker.end !== undefined;
        if (isOver) lateLooks++;
        const isLast = hasEnded || lateLooks > 2 * STAYING_LOOKS;
        const now = isLast ? look() : lookIfThere(look);
        looks = now === last ? looks + 1 : 1;
        last = now;
        const isSame = now === before && isOver;
        const hasChanged = now !== before && looks >= STAYING_LOOKS;
        return isLast || isSame || hasChanged ? now : undefined;
      },
      Infinity,
      signal,
      () => new Error("unreachable"),
    );
  } finally {
    timer.cancel();
  }
}

/** What the resource holds; undefined where it cannot be read, as while it is replaced. */
function lookIfThere(look: () => string): string | undefined {
  try {
    return look();
  } catch (error) {
    if (error instanceof UsageError) return undefined;
    throw error;
  }
}

/** A worker that had ended or written before it was frozen may have had nothing left to write. */
function verdictOf(
  [atStart, atFreeze, beforeWaking, atEnd]: Outcome["seen"],
  wasDone: boolean,
): Outcome["verdict"] {
  if (atEnd !== beforeWaking) return "landed";
  return atFreeze === atStart && !wasDone ? "refused" : "untold";
}

/** The leases that the attack may wait for. */
async function leases(tenure: AnyTenure, name: string | undefined): Promise<Inspection[]> {
  const found: Inspection[] = [];
  if (name === undefined) for await (const lease of tenure.list("")) found.push(lease);
  else {
    const held = await tenure.inspect(name);
    if (held !== null) found.push(held);
  }
  return found;
}

async function holders(tenure: AnyTenure, name: string | undefined): Promise<Set<string>> {
  return new Set((await leases(tenure, name)).map(({ holder }) => holder ?? ""));
}

function note({ json }: Plan, text: string): void {
  if (!json) say(text);
}

function report({ json, successor }: Plan, outcome: Outcome): void {
  const { verdict, frozen, seen, worker, name } = outcome;
  if (json) {
    printJson(outcome);
    return;
  }
  const [, , before, after] = seen.map((text) => JSON.stringify(text.trimEnd()));
  const about = `${name}: the worker with token ${frozen.token}, frozen past its lease and woken,`;
  if (verdict === "landed") {
    print(`${about} changed the resource from ${before} to ${after}. IT IS NOT FENCED.`);
    print("A late write overwrites what the next holder did:");
    print("see docs/guide/fences.md in this package.");
  } else if (verdict === "refused") {
    print(`${about} changed nothing: ${after} (worker: ${worker}).`);
    if (successor === undefined) print("With --successor the next holder writes in between, too.");
  } else {
    print(`${about} changed nothing, but it had done its work before.`);
    print("Nothing can be told from that: freeze it earlier, --freeze-after 0s.");
  }
}

/** The verb. */
export const command: Command = { help: HELP, run };
