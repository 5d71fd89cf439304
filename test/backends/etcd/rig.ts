import { setTimeout as sleep } from "node:timers/promises";
import { onTestFinished } from "vitest";
import type { AskOptions, EtcdGateway, Reply } from "../../../src/backends/etcd/client.js";
import { etcdBackend, type EtcdBackend } from "../../../src/backends/etcd/index.js";
import { etcd, type EtcdOptions } from "../../../src/backends/etcd/open.js";
import { Keys } from "../../../src/backends/etcd/records.js";
import type { AcquireRequest, Call } from "../../../src/core/backend.js";
import type { Runtime } from "../../../src/core/runtime.js";
import { Tenure } from "../../../src/core/tenure.js";
import type { FencingToken } from "../../../src/core/token.js";
import type { EtcdClient } from "../../../src/drivers/etcd/client.js";
import { etcdClient } from "../../../src/drivers/etcd/open.js";
import { platform } from "../../../src/platform/index.js";
import type { EtcdServer } from "../../servers/etcd.js";

/** A call that nobody aborts. */
export const call: Call = { signal: new AbortController().signal, timeoutMs: 5_000 };

/** The keys of backends with the default prefix. */
export const keys: Keys = new Keys("tenure/");

/** A tenure that is closed when the test ends, whatever the store can still do. */
export async function tenureOn(
  hosts: string | readonly string[] | EtcdBackend,
  options: EtcdOptions = {},
): Promise<Tenure<FencingToken>> {
  const backend =
    typeof hosts === "string" || Array.isArray(hosts)
      ? etcd(hosts as string | readonly string[], options)
      : (hosts as EtcdBackend);
  const tenure = await Tenure.open(backend, platform(), {}).catch(async (error: unknown) => {
    await backend.close();
    throw error;
  });
  onTestFinished(() => tenure.close().catch(() => undefined));
  return tenure;
}

/** A client that is closed when the test ends. */
export function clientOn(hosts: string | readonly string[]): EtcdClient {
  const client = etcdClient(hosts);
  onTestFinished(() => client.close());
  return client;
}

/** What can be put between a backend and its client. */
export interface Between {
  ask?(
    path: string,
    body: object,
    options: AskOptions,
    onward: () => Promise<Reply>,
  ): Promise<Reply>;
}

/** An open backend over a client, with something between the two. */
export async function backendOn(
  hosts: string | readonly string[],
  between: Between = {},
  runtime: Runtime = platform(),
): Promise<EtcdBackend> {
  const client = clientOn(hosts);
  const gateway: EtcdGateway = {
    ask: (path, body, options) => {
      const onward = (): Promise<Reply> => client.ask(path, body, options);
      return between.ask?.(path, body, options, onward) ?? onward();
    },
    watch: (create, sink) => client.watch(create, sink),
  };
  const backend = etcdBackend({ gateway, close: () => undefined, runtime });
  await backend.open?.(call);
  return backend;
}

let holders = 0;

/** A request for a name, under a session. */
export function request(name: string, session: string, ttlMs = 60_000): AcquireRequest {
  return { name, holder: `h${++holders}`, ttlMs, session };
}

/** A session of a backend. */
export async function session(backend: EtcdBackend, ttlMs = 60_000): Promise<string> {
  return (await backend.sessions!.open(ttlMs, call)).id;
}

/** The keys of a name's contenders, oldest first, with their leases. */
export async function contenders(
  server: EtcdServer,
  name: string,
): Promise<readonly { readonly holder: string; readonly token: bigint; readonly lease: string }[]> {
  const sorted = { sort_order: "ASCEND", sort_target: "CREATE" };
  const { kvs = [] } = await server.call("kv/range", { ...keys.name(name), ...sorted });
  return kvs.map((kv: any) => {
    const { holder, token, session: lease } = keys.mustRead(kv, name);
    return { holder, token, lease };
  });
}

/** Waits until it is so, for `withinMs` at most; answers how long that took. */
export async function eventually(
  what: string,
  isSo: () => boolean | Promise<boolean>,
  withinMs = 10_000,
): Promise<number> {
  const startMs = performance.now();
  while (performance.now() - startMs < withinMs) {
    if (await isSo()) return performance.now() - startMs;
    await sleep(10);
  }
  throw new Error(`${what}: not within ${withinMs} ms`);
}
