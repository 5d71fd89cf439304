/** A child and everything it started that has not left its process group. */
import { existsSync, readdirSync, readFileSync } from "node:fs";

/** A process group that began as a session of its own, so that its id is its leader's pid. */
export interface ProcessGroup {
  readonly pid: number;
  /** Start time of the leader in ticks since boot; absent where there is no /proc. */
  readonly startTicks?: string;
}

interface Stat {
  readonly state: string;
  readonly group: number;
  readonly session: number;
  readonly startTicks: string;
}

const hasProc = process.platform === "linux" && existsSync("/proc/self/stat");

/** The group of a child that was just started and not yet reaped. */
export function groupOf(pid: number): ProcessGroup {
  const startTicks = statOf(pid)?.startTicks;
  return startTicks === undefined ? { pid } : { pid, startTicks };
}

/**
 * Sends a signal to all members, or with `leaderOnly` to the leader; false when there was none.
 *
 * Never to a stranger that was given the same id later: the kernel keeps the id from reuse while
 * a member is left, and what carries the id must have the leader's start time, or, once the leader
 * was reaped, be in the leader's session without a process of that id. Without /proc only the id
 * is compared.
 */
export function signalGroup(
  group: ProcessGroup,
  signal: NodeJS.Signals,
  { leaderOnly = false }: { readonly leaderOnly?: boolean } = {},
): boolean {
  const leader = statOf(group.pid);
  if (leader !== undefined && leader.startTicks !== group.startTicks) return false;
  if (leaderOnly && hasProc && leader === undefined) return false;
  if (leader === undefined && hasProc && liveMembers(group).length === 0) return false;
  return send(leaderOnly ? group.pid : -group.pid, signal);
}

/**
 * Whether no member runs any more. A dead member that nobody has reaped does not count: in a
 * container whose first process reaps nothing it would stay for ever.
 */
export function isGone(group: ProcessGroup): boolean {
  if (!send(-group.pid, 0)) return true;
  if (!hasProc) return false;
  // A member that forks and ends between the two reads of one look is seen by the next look.
  return liveMembers(group).length === 0 && liveMembers(group).length === 0;
}

function liveMembers(group: ProcessGroup): Stat[] {
  const leader = statOf(group.pid);
  if (leader !== undefined && leader.startTicks !== group.startTicks) return [];
  const members: Stat[] = [];
  for (const entry of readdirSync("/proc")) {
    const pid = Number(entry);
    if (!Number.isInteger(pid)) continue;
    const stat = statOf(pid);
    if (stat?.group !== group.pid || stat.session !== group.pid) continue;
    if (stat.state !== "Z" && stat.state !== "X") members.push(stat);
  }
  return members;
}

/** The line of /proc/PID/stat; its second field is a free text in parentheses. */
function statOf(pid: number): Stat | undefined {
  if (!hasProc) return undefined;
  let line: string;
  try {
    line = readFileSync(`/proc/${pid}/stat`, "latin1");
  } catch {
    // No such process, or it ended while we read.
    return undefined;
  }
  const fields = line.slice(line.lastIndexOf(")") + 2).split(" ");
  const [state, , group, session] = fields;
  const startTicks = fields[19];
  if (state === undefined || startTicks === undefined) return undefined;
  return { state, group: Number(group), session: Number(session), startTicks };
}

function send(target: number, signal: NodeJS.Signals | 0): boolean {
  try {
    process.kill(target, signal);
    return true;
  } catch (error) {
    // EPERM: there is a member, and it is another user's.
    return (error as NodeJS.ErrnoException).code === "EPERM";
  }
}
