/** What the command prints: results to stdout, its own words to stderr. */
import { fstatSync, readSync, statSync, writeSync } from "node:fs";
import type { Held } from "../core/backend.js";
import type { Inspection } from "../core/inspection.js";

/** A result could not be written to stdout: its disk is full, say, or its reader has left. */
export class OutputError extends Error {
  constructor(message: string, cause?: NodeJS.ErrnoException) {
    super(message, { cause });
    this.name = "OutputError";
  }
}

let last: Promise<NodeJS.ErrnoException | undefined> = Promise.resolve(undefined);
let onUnwritten: (error: NodeJS.ErrnoException) => void = () => undefined;

/** Calls `end` when {@link print} could not write, and {@link printed} is not in use. */
export function whenUnwritten(end: (error: NodeJS.ErrnoException) => void): void {
  onUnwritten = end;
  // Told by the callback of the write; without a listener it is thrown besides.
  process.stdout.on("error", () => undefined);
}

/** Prints a result. */
export function print(text: string): void {
  last = put(text, (error) => onUnwritten(error));
}

/** Resolves when all that was printed is written, or could not be. */
export async function flushed(): Promise<void> {
  await last;
}

/** Prints a result that must arrive; answers why it did not. */
export function printed(text: string): Promise<NodeJS.ErrnoException | undefined> {
  return put(text, () => undefined);
}

function put(
  text: string,
  failed: (error: NodeJS.ErrnoException) => void,
): Promise<NodeJS.ErrnoException | undefined> {
  return new Promise((resolve) => {
    write(`${text}\n`, (error) => {
      if (error) failed(error);
      resolve(error ?? undefined);
    });
  });
}

/** On a disk that is almost full, Node's stream takes a part of a text for the whole of it. */
function write(text: string, done: (error?: Error | null) => void): void {
  if (!fstatSync(1).isFile()) {
    process.stdout.write(text, done);
    return;
  }
  const bytes = Buffer.from(text, "utf8");
  try {
    for (let at = 0; at < bytes.length; ) at += writeSync(1, bytes, at);
  } catch (error) {
    done(error as Error);
    return;
  }
  done();
}

/**
 * Whether stdout was closed when this process began (`>&-`). Node opens /dev/null in its place, for
 * reading, too, as a shell does not for `> /dev/null`. So does a Node that starts a child with
 * `stdio: "ignore"`: the two cannot be told apart.
 */
export function isStdoutClosed(): boolean {
  try {
    const nothing = statSync("/dev/null");
    const out = fstatSync(1);
    if (!out.isCharacterDevice() || out.rdev !== nothing.rdev) return false;
    return readSync(1, new Uint8Array(1)) === 0;
  } catch {
    // It cannot be read: somebody opened it for writing. Or the system has no such file.
    return false;
  }
}

/** Says something to the person who looks. */
export function say(text: string): void {
  process.stderr.write(`tenure: ${text}\n`);
}

/** Prints a result as one line of JSON; tokens are decimal strings, since doubles lose digits. */
export function printJson(value: unknown): void {
  print(toJson(value));
}

/** Says something to a program that reads stderr line by line. */
export function sayJson(value: unknown): void {
  process.stderr.write(`${toJson(value)}\n`);
}

/** One line of JSON, as {@link printJson} prints it. */
export function toJson(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) =>
    typeof inner === "bigint" ? inner.toString() : inner,
  );
}

/** `export` lines for `eval` in a POSIX shell. */
export function exportLines(variables: Readonly<Record<string, string>>): string {
  return Object.entries(variables)
    .map(([name, value]) => `export ${name}='${value.replaceAll("'", "'\\''")}'`)
    .join("\n");
}

/** Milliseconds as people read them. */
export function readable(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 120_000) return `${(ms / 1_000).toFixed(1)} s`;
  return ms < 7_200_000 ? `${Math.round(ms / 60_000)} min` : `${(ms / 3_600_000).toFixed(1)} h`;
}

/** What is told of a holder. */
export type Holder = Omit<Inspection, "name">;

/** A holder as a refusal names it. */
export function holderOf({ holder, holderInfo, token, leftMs, waiters }: Held): Holder {
  return {
    holder,
    holderInfo,
    token,
    ...(leftMs === undefined ? {} : { expiresInMs: leftMs }),
    ...(waiters === undefined ? {} : { waiters }),
  };
}

/** Who holds, in one line. */
export function whoHolds(held: Holder): string {
  const { token, expiresInMs } = held;
  const parts = [
    processOf(held),
    ...(token === undefined ? [] : [`token ${token}`]),
    ...(expiresInMs === undefined ? [] : [`${readable(Math.max(0, expiresInMs))} left`]),
  ];
  return parts.join(", ");
}

/** The holding process as people know it; its id where the store tells no more. */
export function processOf({ holder, holderInfo }: Holder): string {
  const { host, pid } = holderInfo ?? {};
  if (host === undefined || pid === undefined) return holder ?? "an unnamed holder";
  return visible(`${pid} on ${host}`);
}

/** A name as a table shows it: control characters would move the reader's cursor. */
export function visible(text: string): string {
  return text.replace(
    /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
    (char) => `\\u{${char.codePointAt(0)!.toString(16)}}`,
  );
}

/** A name as it is, or in quotes where one could not tell where it begins and ends. */
export function quoted(name: string): string {
  if (/^[^\s"'\\\p{C}\p{Z}]+$/u.test(name)) return name;
  return `"${visible(name.replace(/["\\]/g, "\\$&"))}"`;
}

/** Lines with columns side by side. */
export function table(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) =>
    Math.max(...rows.map((row) => row[column]?.length ?? 0)),
  );
  return rows
    .map((row) => row.map((cell, i) => cell.padEnd(widths[i] ?? 0)).join("  ").trimEnd())
    .join("\n");
}
