/**
 * Who holds a lock file, and whether that process is gone for certain.
 *
 * A process is named by boot id, namespaces, pid and start time: a pid alone is reused, and means
 * something else in another container. All are read from `/proc`. Without `/proc` (not Linux)
 * nobody is ever called dead.
 */
import { readdir, readFile, readlink } from "node:fs/promises";

/** One process, and one lock that it took. Its text is part of a file name. */
export interface Owner {
  /** Kernel that the process runs on, from its start to its end. */
  readonly boot: string;
  /** Pid and time namespace: where pid and start time mean something. */
  readonly space: string;
  readonly pid: string;
  /** Start time of the process in clock ticks since the boot. */
  readonly start: string;
}

const UNKNOWN = "unknown";

/** This process. Where `/proc` tells nothing, an owner that nobody calls dead. */
export async function thisProcess(pid: number): Promise<Owner> {
  try {
    const boot = await readFile("/proc/sys/kernel/random/boot_id", "utf8");
    const pidSpace = await readlink("/proc/self/ns/pid");
    const timeSpace = await readlink("/proc/self/ns/time").catch(() => "");
    const stat = parseStat(await readFile("/proc/self/stat", "utf8"));
    const space = `${pidSpace} ${timeSpace}`.replace(/[^0-9 ]/g, "").trim().replaceAll(" ", "-");
    return { boot: boot.replace(/[^0-9a-f]/g, ""), space, pid: stat.pid, start: stat.start };
  } catch {
    return { boot: UNKNOWN, space: UNKNOWN, pid: String(pid), start: UNKNOWN };
  }
}

/** The text of an owner, fit for a file name. */
export function formatOwner(owner: Owner): string {
  return [owner.boot, owner.space, owner.pid, owner.start].join(".");
}

/** The owner in a file name; undefined when it is none. */
export function parseOwner(text: string): Owner | undefined {
  const [boot, space, pid, start] = text.split(".");
  if (boot === undefined || space === undefined || pid === undefined || start === undefined) {
    return undefined;
  }
  return { boot, space, pid, start };
}

/** Whether `owner` has ended for certain; false whenever that cannot be told from here. */
export async function isDead(owner: Owner, here: Owner): Promise<boolean> {
  if (owner.boot === UNKNOWN || here.boot === UNKNOWN) return false;
  // On a local file system another boot id is an earlier boot of this machine.
  if (owner.boot !== here.boot) return true;
  if (owner.space !== here.space) return false;
  const stat = await readStat(owner.pid);
  if (stat === undefined) return await seesEverybody();
  if (stat.start !== owner.start) return true;
  return stat.state === "X" || (stat.state === "Z" && (await hasOneThread(owner.pid)));
}

interface Stat {
  readonly pid: string;
  readonly state: string;
  readonly start: string;
}

async function readStat(pid: string): Promise<Stat | undefined> {
  try {
    return parseStat(await readFile(`/proc/${pid}/stat`, "utf8"));
  } catch {
    return undefined;
  }
}

/** The command stands in parentheses and may hold any text; state is field 3, start field 22. */
function parseStat(text: string): Stat {
  const after = text.slice(text.lastIndexOf(")") + 2).split(" ");
  const [state, start] = [after[0], after[19]];
  const pid = /^[0-9]+/.exec(text)?.[0];
  if (pid === undefined || state === undefined || start === undefined) {
    throw new Error("/proc is not as expected");
  }
  return { pid, state, start };
}

/** With `hidepid` the processes of other users look as if they were gone, and so does pid 1. */
async function seesEverybody(): Promise<boolean> {
  return (await readStat("1")) !== undefined;
}

/** The first thread of a killed process may be a zombie while others finish their system call. */
async function hasOneThread(pid: string): Promise<boolean> {
  const threads = await readdir(`/proc/${pid}/task`).catch(() => []);
  return threads.length <= 1;
}
