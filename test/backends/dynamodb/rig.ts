import { createServer, request, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { DynamoDBClient } from "@aws-sdk/client-dynamodb";
import { onTestFinished } from "vitest";
import { dynamodbBackend, type DynamodbBackend } from "../../../src/backends/dynamodb/index.js";
import type { DynamodbSettings } from "../../../src/backends/dynamodb/options.js";
import type { AcquireRequest, Call, Grant, Held } from "../../../src/core/backend.js";
import type { TenureEvent } from "../../../src/core/events.js";
import type { Runtime } from "../../../src/core/runtime.js";
import { adoptDynamo } from "../../../src/drivers/dynamodb/open.js";
import { platform } from "../../../src/platform/index.js";
import type { DynamodbServer } from "../../servers/dynamodb.js";

/** A call that nobody aborts. */
export const call: Call = { signal: new AbortController().signal, timeoutMs: 10_000 };

/** A machine whose clocks a test moves by hand. */
export class Machine {
  readonly clockId = "";
  monotonicMs = 1_000_000;
  wallMs = 1_800_000_000_000;
  /** By which the clocks of its processes are ahead of the real ones. */
  passedMs = 0;

  constructor(readonly bootId: string) {}

  nowMs(): number {
    return this.monotonicMs;
  }

  /** Both clocks go on, as they do while it runs. */
  pass(ms: number): void {
    this.monotonicMs += ms;
    this.wallMs += ms;
    this.passedMs += ms;
  }
}

/** The real runtime, by the clocks of a machine, whose events are kept. */
export function runtimeOf(machine: Pick<Machine, "wallMs"> & Partial<Machine>): Runtime & {
  readonly seen: readonly TenureEvent[];
} {
  const real = platform();
  const seen: TenureEvent[] = [];
  const aheadMs = (): number => machine.passedMs ?? 0;
  return {
    ...real,
    seen,
    events: { wants: () => true, publish: (event) => void seen.push(event) },
    clock: {
      monotonicMs: () => real.clock.monotonicMs() + aheadMs(),
      uptimeMs: () => {
        const uptimeMs = real.clock.uptimeMs();
        return uptimeMs === undefined ? undefined : uptimeMs + aheadMs();
      },
      wallMs: () => machine.wallMs,
    },
  };
}

/** A backend of a process of its own on a machine, open. */
export async function backendOn(
  machine: Machine,
  { client, table }: { readonly client: DynamoDBClient; readonly table: string },
  settings: DynamodbSettings = {},
): Promise<DynamodbBackend> {
  const runtime = runtimeOf(machine);
  const backend = dynamodbBackend({
    ...settings,
    client: adoptDynamo(client, runtime),
    table,
    runtime,
    machine: async () => machine,
  });
  await backend.open?.(call);
  return backend;
}

let holders = 0;

/** A request by a new holder. */
export function wish(name: string, more: Partial<AcquireRequest> = {}): AcquireRequest {
  return { name, holder: `h${++holders}`, ttlMs: 30_000, ...more };
}

/** Acquires a name that is free. */
export async function take(
  backend: DynamodbBackend,
  request: AcquireRequest,
): Promise<Grant> {
  const answer = await backend.acquire(request, call);
  if ("grant" in answer) return answer.grant;
  throw new Error(`${request.name} is held by ${answer.held.holder}`);
}

/** Tries a name that somebody holds. */
export async function refused(backend: DynamodbBackend, request: AcquireRequest): Promise<Held> {
  const answer = await backend.acquire(request, call);
  if ("held" in answer) return answer.held;
  throw new Error(`${request.name} was granted, with token ${answer.grant.token}`);
}

/** What becomes of one request: it is passed on, or not, and answered, or not. */
export interface Fate {
  readonly isPassedOn: boolean;
  /**
   * Default: the server's own answer. `silence`: the connection is closed without one. `never`: it
   * stays open, and nothing comes.
   */
  readonly answer?: { readonly status: number; readonly type: string } | "silence" | "never";
}

/** A gateway between a client and a server that may fail, or lie. */
export interface Gateway {
  readonly endpoint: string;
  /** Operations that came in so far. */
  readonly operations: string[];
  /** Says what becomes of the next requests. */
  fate: (operation: string) => Fate;
}

const PASS: Fate = { isPassedOn: true };

/** A gateway that is closed when the test ends. */
export async function gatewayTo(server: DynamodbServer): Promise<Gateway> {
  const operations: string[] = [];
  const gateway: { fate: Gateway["fate"] } = { fate: () => PASS };
  const http = createServer((incoming, reply) => {
    const operation = String(incoming.headers["x-amz-target"]).split(".")[1] ?? "?";
    operations.push(operation);
    const { isPassedOn, answer } = gateway.fate(operation);
    const end = (own: IncomingMessage | undefined): void => finish(reply, own, answer);
    if (!isPassedOn) {
      incoming.resume().once("end", () => end(undefined));
      return;
    }
    const { method, headers, url: path } = incoming;
    const onward = { host: "127.0.0.1", port: server.port, method, headers, path, agent: false };
    // A server that is gone is one that gives no answer.
    incoming.pipe(request(onward, end).on("error", () => reply.destroy()));
  });
  await new Promise<void>((listening) => http.listen(0, "127.0.0.1", listening));
  onTestFinished(() => {
    http.closeAllConnections();
    http.close();
  });
  const endpoint = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
  return Object.assign(gateway, { endpoint, operations });
}

function finish(
  reply: ServerResponse,
  own: IncomingMessage | undefined,
  answer: Fate["answer"],
): void {
  if (answer === "silence") {
    own?.resume();
    reply.destroy();
  } else if (answer === "never") {
    own?.resume();
  } else if (answer !== undefined) {
    own?.resume();
    const type = `com.amazonaws.dynamodb.v20120810#${answer.type}`;
    reply.writeHead(answer.status, { "content-type": "application/x-amz-json-1.0" });
    reply.end(JSON.stringify({ __type: type, message: "as the test wants it" }));
  } else if (own !== undefined) {
    reply.writeHead(own.statusCode!, own.headers);
    own.pipe(reply);
  }
}
