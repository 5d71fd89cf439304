import { setTimeout as sleep } from "node:timers/promises";
import { afterEach } from "vitest";
import {
  consul,
  type ConsulBackend,
  type ConsulOptions,
} from "../../../src/backends/consul/open.js";
import type { Call } from "../../../src/core/backend.js";
import type { FencingToken } from "../../../src/core/token.js";
import { Tenure } from "../../../src/core/tenure.js";
import { platform } from "../../../src/platform/index.js";
import type { ConsulServer } from "../../servers/consul.js";

/** Bounds of a call that a test makes itself. */
export const call = (timeoutMs = 10_000): Call => ({
  signal: new AbortController().signal,
  timeoutMs,
});

let prefixes = 0;

/** Opens backends and tenures, each test with keys of its own, and closes them after it. */
export function bench(server: () => ConsulServer): {
  readonly prefix: () => string;
  backend(options?: ConsulOptions, url?: string): Promise<ConsulBackend>;
  tenure(options?: ConsulOptions, url?: string): Promise<Tenure<FencingToken>>;
  /** A session, opened and not kept alive. */
  session(backend: ConsulBackend, ttlMs?: number): Promise<string>;
} {
  let prefix = `bench${++prefixes}`;
  const open: { close(): Promise<void> }[] = [];
  afterEach(async () => {
    prefix = `bench${++prefixes}`;
    for (const one of open.splice(0)) await one.close();
  });
  const make = (options: ConsulOptions = {}, url = server().url): ConsulBackend =>
    consul(url, { prefix, lockDelay: 0, minTtl: "200ms", ...options });
  return {
    prefix: () => prefix,
    async backend(options, url) {
      const made = make(options, url);
      open.push(made);
      await made.open?.(call());
      return made;
    },
    async tenure(options, url) {
      const made = await Tenure.open(make(options, url), platform());
      open.push(made);
      return made;
    },
    session: async (backend, ttlMs = 60_000) => (await backend.sessions!.open(ttlMs, call())).id,
  };
}

/** Waits for a condition, with a bound. */
export async function until(what: string, isSo: () => boolean | Promise<boolean>): Promise<void> {
  for (let waitedMs = 0; waitedMs < 15_000; waitedMs += 5) {
    if (await isSo()) return;
    await sleep(5);
  }
  throw new Error(`waited too long for ${what}`);
}

/** The reason of a signal, once it is aborted. */
export async function reasonOf(signal: AbortSignal): Promise<unknown> {
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener("abort", resolve));
  return signal.reason;
}
