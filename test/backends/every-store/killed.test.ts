/** Waiters on every kind of store, one of which is killed. */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, it, onTestFinished } from "vitest";
import { Tenure } from "../../../src/core/tenure.js";
import type { FencingToken } from "../../../src/core/token.js";
import { platform } from "../../../src/platform/index.js";
import { bundledChild } from "../../servers/bundle.js";
import { describeStore, startWarm, STORES, type Started, type Store } from "./stores.js";

const LIMIT_MS = 20_000;

function suite(store: Store): void {
  let server: Started;
  beforeAll(async () => void (server = await startWarm(store)));
  afterAll(async () => void (await server?.dispose()));

  async function tenure(): Promise<Tenure<FencingToken>> {
    const opened = await Tenure.open(await store.backend(server.url), platform());
    onTestFinished(() => opened.close());
    return opened;
  }

  async function waitingChild(name: string): Promise<ChildProcess> {
    const args = [store.title, server.url, name, String(store.ttlMs)];
    const child = spawn(process.execPath, [bundledChild(import.meta.dirname), ...args], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    onTestFinished(() => void child.kill("SIGKILL"));
    const [line] = (await once(createInterface({ input: child.stdout }), "line")) as [string];
    expect(JSON.parse(line)).toEqual({ waits: true });
    return child;
  }

  it("passes over a waiter that was killed; those who live keep their places (case 23)", async () => {
    const [a, b, c] = [await tenure(), await tenure(), await tenure()];
    const name = "wanted";
    const held = await a.acquire(name, { ttl: "60s" });
    /** On a store with a line, whoever waits has a place in it. */
    const inLine = async (count: number): Promise<void> => {
      const fromMs = performance.now();
      while (a.manifest.waiting === "queue" && (await a.inspect(name))?.waiters !== count) {
        if (performance.now() - fromMs > LIMIT_MS) throw new Error(`${count} do not wait`);
        await sleep(10);
      }
    };
    const first = await waitingChild(name);
    await inLine(1);
    const order: string[] = [];
    const wait = { ttl: store.ttlMs, wait: LIMIT_MS };
    const second = b.acquire(name, wait).finally(() => order.push("second"));
    await inLine(2);
    const third = c.acquire(name, wait).finally(() => order.push("third"));
    await inLine(3);
    first.kill("SIGKILL");
    await once(first, "exit");
    const freeMs = performance.now();
    await held.release();
    const next = await Promise.race([second, third]);
    expect(performance.now() - freeMs).toBeLessThan(store.ttlMs + store.slackMs);
    expect(next.token).toBeGreaterThan(held.token);
    if (a.manifest.fair) expect(order).toEqual(["second"]);
    await next.release();
    const last = await (order[0] === "second" ? third : second);
    expect(last.token).toBeGreaterThan(next.token);
    expect(order).toHaveLength(2);
  });
}

for (const store of STORES) describeStore(store, () => suite(store));
