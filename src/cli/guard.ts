/**
 * The guard process: the parent of the child, and the one who stops it.
 *
 * The wrapper renews the lease and tells the guard each new limit. The guard, in a session of its
 * own, needs nothing more from the wrapper to stop the child in time:
 *
 * 1. The wrapper is frozen, or says nothing: TERM and KILL are due by the last limit told.
 * 2. The wrapper is gone: the pipe ends. Nobody renews any more, so TERM is due at once, and the
 *    child has what is left of the lease to end in order. Then the guard gives the lease back, or
 *    sets it to run out when `--at-least` has passed.
 * 3. All were frozen: the first look after waking finds the limit passed, and sends KILL.
 *
 * Once TERM was sent for the lease's sake nothing extends the limit. Past it KILL is repeated until
 * the group is gone, since a member may fork while it is being killed.
 *
 * Not promised: to stop a child while the whole machine stands still, or one that left its group.
 */
import { spawn } from "node:child_process";
import type { Timer } from "../core/clock.js";
import { machineTimers } from "../platform/clocks.js";
import type { ChildCommand, ChildEnd, FromGuard, Orphan, ToGuard } from "./guard-protocol.js";
import { left, restMs, stamp } from "./machine-time.js";
import type { Limit } from "./machine-time.js";
import { groupOf, isGone, signalGroup } from "./process-group.js";
import type { ProcessGroup } from "./process-group.js";

/** Longest sleep: what a suspend can delay a stop by, since timers do not count it. */
const LONGEST_SLEEP_MS = 400;
/** How often to look for members that outlived their leader, or a KILL. */
const LEFTOVER_SLEEP_MS = 25;
/** What members that outlived their leader get between TERM and KILL. */
const LEFTOVER_MS = 10_000;
/** What any store takes as a TTL, milliseconds. */
const SHORTEST_TTL_MS = 1_000;

let group: ProcessGroup | undefined;
let limit: Limit | null = null;
/** Told to stop because the lease ends or the wrapper is gone. */
let stopped = false;
/** TERM was sent to the whole group, on whoever's behalf. */
let termed = false;
/** The lease that nobody else sees to when the wrapper is gone, and the child's environment. */
let orphan: (Orphan & { readonly env: NodeJS.ProcessEnv }) | undefined;
let leaderEnd: { readonly code: number | null; readonly signal: NodeJS.Signals | null } | undefined;
let leftoverLimit: Limit | undefined;
let sleep: Timer | undefined;

function tell(message: FromGuard, then: () => void = () => undefined): void {
  // Without a wrapper there is nobody to tell.
  if (process.connected) process.send!(message, then);
  else then();
}

function start(command: ChildCommand): void {
  if (limit !== null && left(limit, stamp()).termMs <= 0) {
    const message = "the lease was over before the command could start";
    tell({ type: "failed", code: "LATE", message }, () => process.exit());
    return;
  }
  const failed = (error: NodeJS.ErrnoException): void => {
    const { code = "UNKNOWN", message } = error;
    tell({ type: "failed", code, message }, () => process.exit());
  };
  try {
    const child = spawn(command.file, command.args, {
      stdio: "inherit",
      detached: true,
      env: { ...command.env },
    });
    child.once("error", failed);
    child.once("exit", (code, signal) => {
      leaderEnd = { code, signal };
      look();
    });
    if (child.pid === undefined) return;
    group = groupOf(child.pid);
    tell({ type: "started", group });
    look();
  } catch (error) {
    failed(error as NodeJS.ErrnoException);
  }
}

function look(): void {
  sleep?.cancel();
  if (group === undefined) return;
  if (leaderEnd !== undefined && isGone(group)) {
    const end: ChildEnd = { ...leaderEnd, stopped };
    group = undefined;
    // A wrapper that is there keeps the lease itself, and may be killed while it does.
    const stays = process.connected && orphan !== undefined && keptMs(orphan) > 0;
    if (!process.connected) giveBack();
    tell({ type: "ended", ...end }, () => {
      if (!stays) process.exit();
    });
    return;
  }
  if (leaderEnd !== undefined) limitLeftovers(group);
  sleep = machineTimers.after(Math.max(1, stopIfDue(group)), look);
}

/** For how long the lease has to be kept; 0 when it can go. */
function keptMs({ until }: Orphan): number {
  return until === null ? 0 : Math.max(0, restMs(until));
}

/** Others could wait for the TTL instead, so nobody waits for how this ends. */
function giveBack(): void {
  if (orphan === undefined) return;
  const { script, name, holder, token, env } = orphan;
  const keepMs = keptMs(orphan);
  orphan = undefined;
  const ttl = `${Math.max(SHORTEST_TTL_MS, Math.ceil(keepMs))}ms`;
  const verb = keepMs > 0 ? ["renew", "--ttl", ttl] : ["release"];
  const args = [script, ...verb, "--holder", holder, "--token", token, "--", name];
  spawn(process.execPath, args, { env, stdio: "ignore", detached: true }).unref();
}

/** Does what is due, and answers in how many milliseconds to look again. */
function stopIfDue(members: ProcessGroup): number {
  const now = stamp();
  const leftovers = leftoverLimit === undefined ? Infinity : left(leftoverLimit, now).killMs;
  const lease = limit === null ? { termMs: Infinity, killMs: Infinity } : left(limit, now);
  if (lease.killMs <= 0 || leftovers <= 0) {
    stopped ||= lease.killMs <= 0;
    signalGroup(members, "SIGKILL");
    return LEFTOVER_SLEEP_MS;
  }
  if (lease.termMs <= 0 && !stopped) stop(members);
  const next = stopped ? lease.killMs : Math.min(lease.termMs, lease.killMs);
  return Math.min(next, leftovers, leaderEnd === undefined ? LONGEST_SLEEP_MS : LEFTOVER_SLEEP_MS);
}

/** TERM for the lease's sake; CONT, so that a stopped member can still end in order. */
function stop(members: ProcessGroup): void {
  stopped = true;
  termed = true;
  signalGroup(members, "SIGTERM");
  signalGroup(members, "SIGCONT");
}

/** Members that outlived their leader were not asked to stay: TERM, and KILL in the end. */
function limitLeftovers(members: ProcessGroup): void {
  leftoverLimit ??= { at: stamp(), termInMs: 0, killInMs: LEFTOVER_MS };
  if (termed) return;
  termed = true;
  signalGroup(members, "SIGTERM");
  signalGroup(members, "SIGCONT");
}

function forward(signal: NodeJS.Signals, whole: boolean): void {
  if (group === undefined) return;
  // After a freeze of everything a CONT would run the child past its limit, before the next look.
  if (limit !== null && left(limit, stamp()).killMs <= 0) return;
  // The leader's id is free for others once it was reaped.
  if (!whole && leaderEnd !== undefined) return;
  if (whole && signal === "SIGTERM") termed = true;
  signalGroup(group, signal, { leaderOnly: !whole });
}

process.on("message", (message: ToGuard) => {
  switch (message.type) {
    case "start":
      limit = message.limit;
      if (message.orphan !== null) orphan = { ...message.orphan, env: { ...message.command.env } };
      start(message.command);
      return;
    case "extend":
      if (stopped) return;
      limit = message.limit;
      break;
    case "stop":
      limit = message.limit;
      break;
    case "signal":
      forward(message.signal, message.whole);
      return;
    case "done":
      orphan = undefined;
      return;
  }
  look();
});

process.on("disconnect", () => {
  if (group === undefined) {
    if (leaderEnd !== undefined) giveBack();
    process.exit();
  }
  if (!stopped) stop(group);
  // By the time that the child has ended, the lease may have run out.
  if (orphan !== undefined && limit !== null && keptMs(orphan) > left(limit, stamp()).killMs) {
    giveBack();
  }
  look();
});

// In a session of its own the guard gets no signal from a terminal; one that is sent to it by name
// must not leave the child without a guard. USR1 would open Node's debugger.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2"] as const) {
  process.on(signal, () => undefined);
}
