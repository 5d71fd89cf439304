/** `tenure elect`: a command that runs where the leader is; or a look at who leads. */
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import type { TenureEvent } from "../../core/events.js";
import { election } from "../../election/election.js";
import type { Election } from "../../election/election.js";
import type { Leader } from "../../election/observation.js";
import type { Leadership } from "../../election/term.js";
import { machineTimers } from "../../platform/clocks.js";
import { ChildRun } from "../child-run.js";
import { checkPlatform, CLOSE_MS, endOf, orInterrupted, passed, within } from "../command-end.js";
import type { Command } from "../command.js";
import { readElectPlan } from "../elect-plan.js";
import type { CandidatePlan } from "../elect-plan.js";
import { EXIT, signalExit } from "../exit-codes.js";
import { GuardedChild } from "../guarded-child.js";
import { exitOf } from "../lease-run.js";
import { print, printJson, processOf, say } from "../output.js";
import { Readiness } from "../readiness.js";
import { RunReport } from "../run-report.js";
import { Signals } from "../signals.js";
import { chooseStore, missingFile, openForTokens } from "../store.js";
import type { StoreChoice } from "../store.js";

const HELP = `Runs a command while this process is the leader of NAME, and stops it when it is not.

usage: tenure elect NAME [flags] -- COMMAND [ARGUMENT…]
       tenure elect NAME --observe [--store URL] [--json]

  tenure elect scheduler -- ./scheduler              on each machine: one runs it, the others wait
  tenure elect scheduler --ready-port 8080 -- ./run  200 at 127.0.0.1:8080 while this one leads
  tenure elect scheduler --observe                   a line for each change, and for "no leader"

A leader that is lost has its command stopped before another can lead, and stands again. A command
that ends by itself ends the candidacy: the leader resigns, and the exit code is the command's.

flags
  --ttl 30s          how long the store keeps the lease without renewal; it is renewed all the while
  --grace 1s         time between TERM and KILL when the lease is lost; below a third of the TTL
  --info TEXT|JSON   what observers see of this candidate: a text, or an object of texts and numbers
  --ready-file PATH  a file that exists while this process leads; it stays behind when this process
                     is killed with SIGKILL or frozen
  --ready-port PORT  answers on 127.0.0.1 with 200 while this process leads, else with 503; 0 takes
                     a free port and says which
  --store URL        the store; else $TENURE_STORE, else a file in your state folder
  --json             events as lines of JSON on stderr; with --observe the changes on stdout
  -c, --shell        run the words after -- with sh -c
  --observe          print who leads, and each change, until it is ended by a signal

The command gets TENURE_NAME TENURE_TERM TENURE_TOKEN TENURE_HOLDER TENURE_TTL_MS TENURE_STORE; term
and token are the same number.

exit code: the command's own, 128 + signal, or
  64 wrong usage   69 store unavailable at the start   126 cannot be run   127 no such command`;

/** Between two looks for a store file that nobody has made yet, milliseconds. */
const LOOK_EVERY_MS = 250;

async function run(argv: readonly string[]): Promise<number> {
  const plan = readElectPlan(argv);
  const signals = new Signals();
  try {
    return await (plan.kind === "observer" ? observe(plan, signals) : stand(plan, signals));
  } finally {
    signals.close();
  }
}

/** What a candidacy works with. */
interface Parts {
  readonly plan: CandidatePlan;
  readonly signals: Signals;
  readonly report: RunReport;
  readonly readiness: Readiness;
}

async function stand(plan: CandidatePlan, signals: Signals): Promise<number> {
  checkPlatform("elect");
  const report = new RunReport(plan.name, plan.json);
  const silent = (message: unknown): void => {
    const event = message as TenureEvent & { readonly type: "unavailable" };
    if (event.name === plan.name) report.silent(event.error);
  };
  let readiness: Readiness | undefined;
  subscribe("tenure:unavailable", silent);
  try {
    readiness = await Readiness.open(plan.ready);
    if (readiness.port !== undefined) report.listening(readiness.port);
    const tenure = await orInterrupted(openForTokens(plan.store), signals.waiting);
    try {
      const { ttlMs, graceMs } = plan;
      const candidate = election(tenure, plan.name, {
        ...(ttlMs === undefined ? {} : { ttl: ttlMs }),
        ...(graceMs === undefined ? {} : { grace: graceMs }),
        info: { command: plan.file, ...plan.info },
      });
      report.standing();
      return await led(candidate, { plan, signals, report, readiness });
    } finally {
      await within(tenure.close(), CLOSE_MS);
    }
  } catch (error) {
    return endOf(error, plan, report);
  } finally {
    unsubscribe("tenure:unavailable", silent);
    readiness?.close();
  }
}

/** Leads term after term until a command has ended by itself; answers its exit code. */
async function led(candidate: Election, parts: Parts): Promise<number> {
  const { waiting } = parts.signals;
  for (;;) {
    // The guard bounds the work: it kills the command at the deadline. What an ending signal asks
    // for is the command's to do, in its own time, under a lease that is renewed meanwhile.
    const code = await candidate.lead((term) => oneTerm(term, parts), {
      signal: waiting,
      stepDown: Infinity,
    });
    if (code !== undefined) return code;
  }
}

/** Runs the command for one term; undefined when the term ended first. */
async function oneTerm(term: Leadership, parts: Parts): Promise<number | undefined> {
  const { plan, report, readiness } = parts;
  const child = new GuardedChild(plan.name, machineTimers);
  report.elected(term);
  const childRun = new ChildRun(term, { ...parts, child });
  try {
    readiness.leads(term);
    const { end, stopped } = await childRun.child({ TENURE_TERM: String(term.term) });
    if (end === undefined) return undefined;
    const code = stopped ? undefined : exitOf(end);
    report.ended(end.code, end.signal, code);
    return code;
  } finally {
    readiness.follows(term);
    childRun.close();
    child.dismiss();
  }
}

async function observe(
  {
    name,
    store,
    json,
  }: { readonly name: string; readonly store?: string | undefined; readonly json: boolean },
  signals: Signals,
): Promise<number> {
  const tell = (leader: Leader | null): void => {
    if (json) printJson({ name, leader });
    else print(leader === null ? "no leader" : inWords(leader));
  };
  const choice = chooseStore(store);
  const missing = missingFile(choice);
  if (missing !== undefined) {
    if (choice.folder === undefined && !json) say(`there is no store file ${missing} yet`);
    tell(null);
    await made(choice, signals.waiting);
  }
  let toldNobody = missing !== undefined;
  const tenure = await orInterrupted(openForTokens(choice), signals.waiting);
  try {
    const changes = election(tenure, name).observe({ signal: signals.waiting });
    for await (const leader of changes) {
      if (leader !== null || !toldNobody) tell(leader);
      toldNobody = false;
    }
  } finally {
    await within(tenure.close(), CLOSE_MS);
  }
  return signals.asked === undefined ? EXIT.ok : signalExit(signals.asked.number);
}

/**
 * Waits for a store file that is made with the first lease in it: one who only looks makes none.
 *
 * @throws the reason of `waiting` once it aborts.
 */
async function made(choice: StoreChoice, waiting: AbortSignal): Promise<void> {
  while (missingFile(choice) !== undefined) {
    await passed(LOOK_EVERY_MS, waiting);
    waiting.throwIfAborted();
  }
}

function inWords({ term, holder, info }: Leader): string {
  const who = processOf({ holder, holderInfo: info, token: term });
  return `term ${term}: ${who}`;
}

/** The verb. */
export const command: Command = { help: HELP, run };
