/**
 * Mark and value of one resource in one file, so that one rename replaces both.
 *
 * Line 1: `tenure-fence-file 1`, then the SHA-256 of everything after the line. Line 2: the mark
 * and the name of the resource as JSON. Then the bytes of the value, if there is one. The checksum
 * tells a damaged file, and one that somebody edited past the fence.
 */
import { createHash } from "node:crypto";
import { ArgumentTypeError } from "../../core/errors.js";
import type { MarkRecord } from "../decide.js";
import { recordFromJson, recordToJson } from "../record.js";

/** What a file holds. */
export interface Content {
  readonly record: MarkRecord;
  readonly value: Uint8Array | undefined;
}

const FORM = "tenure-fence-file 1";
const NEWLINE = 0x0a;

export function encode(resource: string, content: Content): Uint8Array {
  const { record, value } = content;
  const head = { resource, mark: recordToJson(record), hasValue: value !== undefined };
  const body = Buffer.concat([
    Buffer.from(`${JSON.stringify(head)}\n`),
    value ?? new Uint8Array(0),
  ]);
  return Buffer.concat([Buffer.from(`${FORM} ${checksum(body)}\n`), body]);
}

/** @throws Error saying what is wrong with the file. */
export function decode(resource: string, bytes: Uint8Array): Content {
  const [first, body] = splitLine(bytes);
  const [form, version, sum] = first.split(" ");
  if (`${form ?? ""} ${version ?? ""}` !== FORM) throw new Error("it does not begin as one");
  if (sum !== checksum(body)) {
    throw new Error("its checksum is wrong: it was damaged, or changed past the fence");
  }
  const [line, rest] = splitLine(body);
  const head = JSON.parse(line) as { resource?: unknown; mark?: unknown; hasValue?: unknown };
  if (head.resource !== resource) throw new Error("it belongs to another resource");
  if (head.hasValue !== true && rest.length > 0) throw new Error("it has bytes beyond its end");
  return {
    record: recordFromJson(head.mark),
    value: head.hasValue === true ? rest.slice() : undefined,
  };
}

/** The bytes of what a caller puts, copied: the caller's array may change later. */
export function toBytes(value: unknown): Uint8Array {
  if (typeof value === "string") return new TextEncoder().encode(value);
  if (value instanceof Uint8Array) return Uint8Array.from(value);
  throw new ArgumentTypeError("value", value, "bytes or a string");
}

function splitLine(bytes: Uint8Array): [line: string, rest: Uint8Array] {
  const end = bytes.indexOf(NEWLINE);
  if (end < 0) throw new Error("it ends too early");
  return [new TextDecoder().decode(bytes.subarray(0, end)), bytes.subarray(end + 1)];
}

function checksum(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}
