/** Redis's wire protocol in few lines: how tests look into a store without a client library. */
import { connect } from "node:net";

/** What a server answers. */
export type Reply = string | number | null | readonly Reply[];

/** An error that the server answered with. */
class ReplyError extends Error {}

const ANSWER_WITHIN_MS = 15_000;

/** Sends one command on a connection of its own. */
export function sendCommand(port: number, args: readonly (string | number)[]): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const socket = connect({ port, host: "127.0.0.1" });
    let seen = "";
    const end = (settle: () => void): void => {
      socket.destroy();
      settle();
    };
    socket.setEncoding("latin1");
    socket.setTimeout(ANSWER_WITHIN_MS, () =>
      end(() => reject(new Error(`no answer of port ${port} to ${args[0]}`))),
    );
    socket.on("error", (error) => end(() => reject(error)));
    socket.on("close", () => reject(new Error(`port ${port} closed instead of answering`)));
    socket.on("data", (text: string) => {
      seen += text;
      const parsed = parse(seen, 0);
      if (parsed === undefined) return;
      const { value } = parsed;
      end(() => (value instanceof ReplyError ? reject(value) : resolve(value)));
    });
    socket.write(encode(args), "latin1");
  });
}

/** A command as bytes, one character each. */
function encode(args: readonly (string | number)[]): string {
  const parts = args.map((arg) => {
    const bytes = Buffer.from(String(arg)).toString("latin1");
    return `$${bytes.length}\r\n${bytes}\r\n`;
  });
  return `*${args.length}\r\n${parts.join("")}`;
}

interface Parsed<V> {
  readonly value: V;
  readonly next: number;
}

/** The reply that begins at `from`; undefined while some of it has not come yet. */
function parse(bytes: string, from: number): Parsed<Reply | ReplyError> | undefined {
  const lineEnd = bytes.indexOf("\r\n", from);
  if (lineEnd === -1) return undefined;
  const line = bytes.slice(from + 1, lineEnd);
  const next = lineEnd + 2;
  switch (bytes[from]) {
    case "+":
      return { value: line, next };
    case "-":
      return { value: new ReplyError(line), next };
    case ":":
      return { value: Number(line), next };
    case "$":
      return parseText(bytes, next, Number(line));
    case "*":
      return parseArray(bytes, next, Number(line));
    default:
      throw new Error(`not a reply of Redis: ${line}`);
  }
}

function parseText(bytes: string, from: number, length: number): Parsed<Reply> | undefined {
  if (length === -1) return { value: null, next: from };
  const end = from + length;
  if (bytes.length < end + 2) return undefined;
  const value = Buffer.from(bytes.slice(from, end), "latin1").toString("utf8");
  return { value, next: end + 2 };
}

function parseArray(bytes: string, from: number, length: number): Parsed<Reply> | undefined {
  if (length === -1) return { value: null, next: from };
  const values: Reply[] = [];
  let next = from;
  for (let i = 0; i < length; i++) {
    const item = parse(bytes, next);
    if (item === undefined) return undefined;
    if (item.value instanceof ReplyError) throw item.value;
    values.push(item.value);
    next = item.next;
  }
  return { value: values, next };
}
