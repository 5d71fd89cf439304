import { setTimeout as sleep } from "node:timers/promises";
import { onTestFinished } from "vitest";
import { encodeName } from "../../../src/backends/zookeeper/names.js";
import {
  zookeeper,
  type ZookeeperBackend,
  type ZookeeperOptions,
} from "../../../src/backends/zookeeper/open.js";
import type { AcquireRequest, Call, Grant } from "../../../src/core/backend.js";
import { Tenure } from "../../../src/core/tenure.js";
import { zookeeperClient, type ZookeeperClient } from "../../../src/drivers/zookeeper/client.js";
import { platform } from "../../../src/platform/index.js";
import { faultProxy, type FaultProxy } from "../../../src/testing/fault-proxy.js";

let count = 0;

/** A name of one test. */
export const freshName = (): string => `name ${process.pid} ${++count}`;

/** A call whose signal aborts after its time, as the core's does. */
export function call(timeoutMs = 10_000): Call {
  const controller = new AbortController();
  const timer = setTimeout(() => controller.abort(new Error("timed out")), timeoutMs);
  onTestFinished(() => clearTimeout(timer));
  return { timeoutMs, signal: controller.signal };
}

/** An open backend; closed when the test ends. */
export async function openOn(
  hosts: string | readonly string[],
  options: ZookeeperOptions = {},
): Promise<ZookeeperBackend> {
  const backend = zookeeper(hosts, options);
  onTestFinished(() => backend.close());
  await backend.open!(call());
  return backend;
}

/** A tenure; closed when the test ends, whether or not its store answers. */
export async function tenureOn(hosts: string | readonly string[]): Promise<Tenure> {
  const tenure = await Tenure.open(zookeeper(hosts), platform());
  onTestFinished(async () => void (await tenure.close().catch(() => undefined)));
  return tenure;
}

/** A client of the store, to look at it and to do by hand what a person may; closed at the end. */
export function handOn(url: string): ZookeeperClient {
  const client = zookeeperClient(url);
  onTestFinished(() => client.close());
  return client;
}

/** A proxy in front of a server; closed when the test ends. */
export async function proxyTo(server: { readonly port: number }): Promise<FaultProxy> {
  const proxy = await faultProxy({ port: server.port });
  onTestFinished(() => proxy.close());
  return proxy;
}

export const at = ({ port }: { readonly port: number }): string => `127.0.0.1:${port}`;

/** The folder of a name. */
export const folderOf = (name: string): string => `/tenure/leases/${encodeName(name)}`;

/** The nodes in the folder of a name, or undefined where there is none. */
export function nodesOf(
  hand: ZookeeperClient,
  name: string,
): Promise<readonly string[] | undefined> {
  const within = call();
  return hand.use(within, (session) => session.children(folderOf(name), within, true));
}

/** Deletes a node by hand. */
export async function deleteNode(hand: ZookeeperClient, path: string): Promise<void> {
  const within = call();
  const { ok } = await hand.use(within, (session) =>
    session.commit([{ kind: "delete", path, version: -1 }], within),
  );
  if (!ok) throw new Error(`${path} could not be deleted`);
}

/** Requests of one session of a backend. */
export async function requester(
  backend: ZookeeperBackend,
  ttlMs = 20_000,
): Promise<(name: string, holder?: string) => AcquireRequest> {
  const { id } = await backend.sessions!.open(ttlMs, call());
  return (name, holder = `h${++count}`) => ({ name, holder, ttlMs, session: id });
}

export async function take(backend: ZookeeperBackend, request: AcquireRequest): Promise<Grant> {
  const answer = await backend.acquire(request, call());
  if ("grant" in answer) return answer.grant;
  throw new Error(`${request.name} is held by ${answer.held.holder}`);
}

/** The queue of a backend. */
export function queueOf(
  backend: ZookeeperBackend,
): Extract<ZookeeperBackend["waiting"], { readonly kind: "queue" }> {
  if (backend.waiting.kind !== "queue") throw new Error("no queue");
  return backend.waiting;
}

/** Resolves once it is so. */
export async function until(
  what: string,
  isSo: () => Promise<boolean> | boolean,
  limitMs = 20_000,
): Promise<void> {
  for (let waitedMs = 0; waitedMs < limitMs; waitedMs += 10) {
    if (await isSo()) return;
    await sleep(10);
  }
  throw new Error(`waited in vain until ${what}`);
}
