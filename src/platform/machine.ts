import { execFile } from "node:child_process";
import { readFile, readlink } from "node:fs/promises";
import { tmpdir } from "node:os";

/** What all processes of one machine share, and which process this is among them. */
export interface Machine {
  /** Changes with every boot of the machine; undefined where the platform does not tell. */
  readonly bootId: string | undefined;
  /** Two processes with the same id read the same {@link Machine.nowMs}. */
  readonly clockId: string;
  readonly pid: number;
  /** Folder for short-lived files. */
  readonly tempFolder: string;
  /**
   * Whether a refused connection to a socket file proves that its owner is gone. On Linux it does;
   * BSD systems also refuse when the queue of a living listener is full.
   */
  readonly refusalIsProof: boolean;
  /** Monotonic milliseconds since an origin that all processes of one boot share. */
  nowMs(): number;
}

let machineOnce: Promise<Machine> | undefined;

/** This machine, asked once per process. */
export function machine(): Promise<Machine> {
  machineOnce ??= ask();
  return machineOnce;
}

async function ask(): Promise<Machine> {
  // Both are the same clock; only hrtime has an origin that other processes share, and only
  // performance.now() is read without making a bigint.
  const originMs = Number(process.hrtime.bigint()) / 1e6 - performance.now();
  const [bootId, clockId] = await Promise.all([readBootId(), readClockId()]);
  return {
    bootId,
    clockId,
    pid: process.pid,
    tempFolder: tmpdir(),
    refusalIsProof: process.platform === "linux",
    nowMs: () => originMs + performance.now(),
  };
}

async function readBootId(): Promise<string | undefined> {
  if (process.platform === "linux") {
    const text = await readFile("/proc/sys/kernel/random/boot_id", "utf8").catch(() => "");
    return text.trim() || undefined;
  }
  if (process.platform !== "darwin") return undefined;
  return new Promise((resolve) => {
    execFile("/usr/sbin/sysctl", ["-n", "kern.bootsessionuuid"], (error, stdout) => {
      resolve(error === null ? stdout.trim() || undefined : undefined);
    });
  });
}

/** Linux can shift the monotonic clock of a container by a time namespace. */
async function readClockId(): Promise<string> {
  return readlink("/proc/self/ns/time").catch(() => "");
}
