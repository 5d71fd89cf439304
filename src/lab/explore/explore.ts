/**
 * Every interleaving of a few tasks at one fenced value, over a network that delays, repeats and
 * loses messages. Finds the shortest way to a lost update, if there is one.
 *
 * A task arms, reads, and writes twice what it makes of the value it knows. Whenever a write is
 * accepted, the value must be the one that its writer knew (or that very write, sent again): else
 * somebody's update is lost. And the task that armed last is never refused.
 */
import { decide, type FenceRequest, type MarkRecord } from "../../fences/decide.js";

/** The rules of the protocol; a test takes one away. */
export interface Rules {
  /** Tasks arm first; without: a token at least as high as that of the last write may write. */
  readonly armFirst: boolean;
  /** An equal token needs the same holder. */
  readonly sameHolder: boolean;
  /** A newer arming of a holder ends the older handles. */
  readonly numberedArmings: boolean;
  readonly numberedWrites: boolean;
  /** After a write with an unknown outcome a task arms again. */
  readonly rearm: boolean;
  /** Arming again proposes the task's own number + 1, and so never ends a newer task. */
  readonly rearmBehindOwn: boolean;
  /** A refused re-arming is accepted after all where the mark shows that a copy of it was. */
  readonly knowOwnCopy: boolean;
}

export const ALL_RULES: Rules = {
  armFirst: true,
  sameHolder: true,
  numberedArmings: true,
  numberedWrites: true,
  rearm: true,
  rearmBehindOwn: true,
  knowOwnCopy: true,
};

/** One task: the grant it works under. */
export interface Task {
  readonly token: bigint;
  readonly holder: string;
}

export interface Limits {
  readonly duplicates: number;
  readonly timeouts: number;
}

interface TaskState {
  /** `again`: armed again, and free to read, or to send the same write once more. */
  readonly phase: "arm" | "read" | "write" | "rearm" | "again" | "done";
  readonly arm: number;
  readonly n: number;
  readonly known: string;
  readonly writes: number;
  /** Counts what it makes of what it knows: a new value after each read and each write. */
  readonly made: number;
  /** Whether the answer to its last message is awaited. */
  readonly waiting: boolean;
}

interface Message {
  readonly task: number;
  readonly op: "arm" | "read" | "write";
  readonly arm: number;
  readonly n: number;
  readonly base: string;
  readonly value: string;
  readonly delivered: boolean;
  /** Whether its task still waits for the answer. */
  readonly awaited: boolean;
}

interface State {
  readonly mark: { readonly task: number; readonly arm: number; readonly n: number } | null;
  readonly value: string;
  readonly tasks: readonly TaskState[];
  readonly messages: readonly Message[];
  readonly duplicates: number;
  readonly timeouts: number;
}

const WRITES = 2;
const SCOPE = { storeId: "s", name: "l" };
type Step = readonly [label: string, next: State, wrong?: "lost" | "refused" | undefined];

/** What was found, and in how many states; no further than the first lost update. */
export interface Explored {
  /** The steps to a lost update, or null. */
  readonly lost: readonly string[] | null;
  /** The steps to a refusal of the task that armed last, or null. */
  readonly refused: readonly string[] | null;
  readonly states: number;
}

/** Goes every way that there is, the shorter ones first. */
export function explore(tasks: readonly Task[], rules: Rules, limits: Limits): Explored {
  const first: State = {
    mark: null,
    value: "v0",
    tasks: tasks.map(() => ({
      phase: rules.armFirst ? "arm" : "read",
      arm: 0, n: 0, known: "", writes: 0, made: 0, waiting: false,
    })),
    messages: [],
    ...limits,
  };
  const came = new Map<string, readonly [from: string, label: string]>();
  const path = (key: string, last: string): string[] => {
    const labels = [last];
    for (let at = came.get(key); at !== undefined && at[1] !== ""; at = came.get(at[0])) {
      labels.unshift(at[1]);
    }
    return labels;
  };
  let wave: [string, State][] = [[JSON.stringify(first), first]];
  came.set(wave[0]![0], ["", ""]);
  let refused: readonly string[] | null = null;
  while (wave.length > 0) {
    const next: [string, State][] = [];
    for (const [key, state] of wave) {
      for (const [label, reached, wrong] of steps(state, tasks, rules)) {
        if (wrong === "lost") return { lost: path(key, label), refused, states: came.size };
        if (wrong === "refused") refused ??= path(key, label);
        const after = prune(reached, tasks, rules);
        const afterKey = JSON.stringify(after);
        if (came.has(afterKey)) continue;
        came.set(afterKey, [key, label]);
        next.push([afterKey, after]);
      }
    }
    wave = next;
  }
  return { lost: null, refused, states: came.size };
}

function* steps(state: State, tasks: readonly Task[], rules: Rules): Generator<Step> {
  for (const [index, task] of state.tasks.entries()) {
    if (!task.waiting && task.phase !== "done") {
      yield* sends(state, index, tasks, rules);
    } else if (task.waiting && state.timeouts > 0) {
      const timed = { ...state, timeouts: state.timeouts - 1 };
      yield [`${index} gives up waiting`, onTimeout(timed, index, rules)];
    }
  }
  for (const message of state.messages) {
    if (message.delivered && state.duplicates === 0) continue;
    yield* delivers(state, message, tasks, rules);
  }
}

function* sends(
  state: State,
  index: number,
  tasks: readonly Task[],
  rules: Rules,
): Generator<Step> {
  const task = state.tasks[index]!;
  const send = (op: Message["op"], arm = task.arm, n = task.n): State => {
    const [base, value] = [task.known, `${index}.${task.made}`];
    const message = { task: index, op, arm, n, base, value, delivered: false, awaited: true };
    return {
      ...withTask(state, index, { waiting: true, ...(op === "write" ? { n } : {}) }),
      messages: [...state.messages, message],
    };
  };
  const seen = state.mark;
  const isOwn = seen !== null && sameGrant(tasks, seen.task, index);
  switch (task.phase) {
    case "arm": {
      const arm = isOwn ? seen.arm + 1 : 1;
      yield [`${index} arms ${arm}`, send("arm", arm, 0)];
      return;
    }
    case "rearm": {
      const arm = rules.rearmBehindOwn || !isOwn ? task.arm + 1 : seen.arm + 1;
      const n = 10 * (index + 1);
      // An arming whose answer was lost is known by where its numbers start.
      if (isOwn && seen.arm === arm && seen.n === n) {
        yield [`${index} sees its arming`, withTask(state, index, { phase: "again", arm, n })];
      } else yield [`${index} arms again ${arm}`, send("arm", arm, n)];
      return;
    }
    case "read":
      yield [`${index} reads`, send("read")];
      return;
    case "again":
    case "write": {
      const n = task.n + 1;
      if (task.phase === "again") yield [`${index} reads again`, send("read")];
      yield [`${index} writes ${n}`, send("write", task.arm, n)];
      return;
    }
    case "done":
  }
}

function* delivers(
  state: State,
  message: Message,
  tasks: readonly Task[],
  rules: Rules,
): Generator<Step> {
  const judged = judge(state, message, tasks, rules);
  const used = {
    ...state,
    duplicates: state.duplicates - (message.delivered ? 1 : 0),
    messages: state.messages.map((one) =>
      one === message ? { ...one, delivered: true, awaited: false } : one,
    ),
  };
  const { task, arm, n, op } = message;
  const known = state.value === message.base || state.value === message.value;
  const effect: State = !judged
    ? used
    : op === "read"
      ? used
      : { ...used, mark: { task, arm, n }, ...(op === "write" ? { value: message.value } : {}) };
  const lost = judged && op === "write" && !known ? "lost" : undefined;
  const label = `${op} ${arm}/${n} of ${task} arrives: ${judged ? "accepted" : "refused"}`;
  // Without an answer the task still waits, and may give up.
  if (judged) yield [`${label}, no answer`, unanswered(effect, message), lost];
  if (!message.awaited) return;
  const after = onAnswer(effect, message, judged, tasks, rules);
  const isEnded = !judged && after.tasks[task]!.phase === "done";
  yield [label, after, isEnded && state.mark?.task === task ? "refused" : lost];
}

function unanswered(state: State, message: Message): State {
  if (!message.awaited) return state;
  const messages = state.messages.map((one) =>
    isSame(one, message) ? { ...one, awaited: true } : one,
  );
  return { ...state, messages };
}

function isSame(a: Message, b: Message): boolean {
  return a.task === b.task && a.op === b.op && a.arm === b.arm && a.n === b.n && a.base === b.base;
}

/**
 * Drops what cannot matter any more: a mark only grows, so what it refuses it refuses for ever, and
 * a refusal tells nobody anything new but whom it could mislead: who waits to be armed again.
 */
function prune(state: State, tasks: readonly Task[], rules: Rules): State {
  const messages = state.messages.filter((message) => {
    const { phase } = state.tasks[message.task]!;
    const misleads = state.duplicates > 0 && phase === "rearm";
    if (message.awaited && (!message.delivered || misleads)) return true;
    if (message.op === "read" || (message.delivered && state.duplicates === 0)) return false;
    return judge(state, message, tasks, rules);
  });
  const order = (message: Message): string => JSON.stringify(message);
  return { ...state, messages: messages.sort((a, b) => (order(a) < order(b) ? -1 : 1)) };
}

function onAnswer(
  before: State,
  message: Message,
  judged: boolean,
  tasks: readonly Task[],
  rules: Rules,
): State {
  const { task: index, op } = message;
  // A copy that is equal to it is awaited no more, either.
  const state = unawaited(before, index);
  const { mark } = state;
  const task = state.tasks[index]!;
  const isGrants = mark !== null && sameGrant(tasks, mark.task, index);
  const isCopy = isGrants && mark.arm === message.arm && mark.n === message.n;
  const accepted = judged || (task.phase === "rearm" && isCopy && rules.knowOwnCopy);
  if (!accepted) {
    // One that is refused as superseded looks again; a write that was applied before is unknown.
    const [again, unknown] = [task.phase === "arm" && isGrants, op === "write" && isCopy];
    const phase = again ? "arm" : unknown && rules.rearm ? "rearm" : "done";
    return withTask(state, index, { phase, waiting: false });
  }
  if (op === "read") {
    const made = task.made + 1;
    return withTask(state, index, { phase: "write", known: state.value, made, waiting: false });
  }
  if (op === "arm") {
    const phase = task.phase === "rearm" ? "again" : "read";
    return withTask(state, index, { phase, arm: message.arm, n: message.n, waiting: false });
  }
  const writes = task.writes + 1;
  const phase = writes < WRITES ? "write" : "done";
  const made = task.made + 1;
  return withTask(state, index, { phase, known: message.value, writes, made, waiting: false });
}

/** Without anything that this task waits for. */
function unawaited(state: State, index: number): State {
  const messages = state.messages.map((one) =>
    one.task === index ? { ...one, awaited: false } : one,
  );
  return { ...state, messages };
}

function onTimeout(before: State, index: number, rules: Rules): State {
  const state = unawaited(before, index);
  const sent = before.messages.find((one) => one.awaited && one.task === index);
  if (sent?.op !== "write") return withTask(state, index, { waiting: false });
  // Reads again under the old arming, where the rule is taken away.
  const phase = rules.armFirst && rules.rearm ? "rearm" : "read";
  return withTask(state, index, { phase, waiting: false });
}

/** The fence, with rules taken away. With all of them it is `decide` itself. */
function judge(state: State, message: Message, tasks: readonly Task[], rules: Rules): boolean {
  const mark = state.mark;
  const request = toRequest(message, tasks);
  if (!rules.armFirst) {
    return message.op === "read" || mark === null || request.token >= tasks[mark.task]!.token;
  }
  if (mark === null) return decide(null, request).accepted;
  const { token, holder } = tasks[mark.task]!;
  const record: MarkRecord = { scope: SCOPE, token, holder, arm: mark.arm, n: mark.n, past: [] };
  if (request.token !== token) return decide(record, request).accepted;
  const arming = { arm: request.op === "arm" ? record.arm + 1 : record.arm };
  return decide(record, {
    ...request,
    ...(rules.sameHolder ? {} : { holder }),
    ...(rules.numberedArmings ? {} : arming),
    ...(rules.numberedWrites ? {} : { n: record.n + 1 }),
  }).accepted;
}

function toRequest(message: Message, tasks: readonly Task[]): FenceRequest {
  const { token, holder } = tasks[message.task]!;
  const { op, arm, n } = message;
  return { op, resource: "r", scope: SCOPE, token, holder, arm, n };
}

function sameGrant(tasks: readonly Task[], a: number, b: number): boolean {
  return tasks[a]!.token === tasks[b]!.token && tasks[a]!.holder === tasks[b]!.holder;
}

function withTask(state: State, index: number, change: Partial<TaskState>): State {
  return {
    ...state,
    tasks: state.tasks.map((task, i) => (i === index ? { ...task, ...change } : task)),
  };
}
