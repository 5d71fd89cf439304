/** Models and real stores, as they are compared. */
import { setTimeout as sleep } from "node:timers/promises";
import { SimulatedProcess } from "../../../src/lab/process.js";
import { remoteBackend } from "../../../src/lab/remote.js";
import type { SimulatedStore } from "../../../src/lab/simulation.js";
import type { World } from "../../../src/lab/world.js";
import type { AnyBackend } from "../../../src/testing/subject.js";
import { InstantNetwork } from "../../lab/instant-network.js";
import { CALL } from "./known.js";
import type { Store } from "./store.js";

const LIMIT_MS = 30_000;
const MODEL_STEP_MS = 20;
const LOOK_EVERY_MS = 5;

/** A network whose link to the replica can be cut; all else arrives at once. */
export class ReplicaNetwork extends InstantNetwork {
  isCut = false;

  override send(
    from: SimulatedProcess,
    to: SimulatedProcess,
    what: string,
    arrive: () => void,
  ): void {
    if (!this.isCut || what !== "replicate") super.send(from, to, what, arrive);
  }
}

/** What else there is to say of a store. */
type Powers = Pick<Store, "faults" | "replace" | "isOver">;

/** A model, with some clients in its world. */
export async function modelStore(
  what: string,
  world: World,
  model: SimulatedStore,
  { clients: count, network, ...powers }: Powers & {
    readonly clients: number;
    readonly network: InstantNetwork;
  },
): Promise<Store> {
  let born = 0;
  const connect = (): AnyBackend => {
    const client = new SimulatedProcess(world, `C${++born}`);
    return model.backend?.(client, network) ?? remoteBackend(client, network, model.find);
  };
  const clients = Array.from({ length: count }, connect);
  for (const client of clients) await world.until(Promise.resolve(client.open?.(CALL)), LIMIT_MS);
  return {
    what,
    clients,
    carry: async (call) => world.until(Promise.resolve(call()), LIMIT_MS),
    async until(awaited, isSo) {
      for (let passedMs = 0; passedMs < LIMIT_MS; passedMs += MODEL_STEP_MS) {
        if (await isSo()) return;
        await world.run(world.nowMs + MODEL_STEP_MS);
      }
      throw new Error(`waited ${LIMIT_MS} ms for ${awaited}`);
    },
    nowMs: () => world.nowMs,
    pass: (ms) => world.run(world.nowMs + ms),
    ...powers,
    async close() {
      for (const client of clients) await world.until(client.close(), LIMIT_MS);
    },
  };
}

/** Clients of a real store, opened. */
export async function realStore(
  what: string,
  count: number,
  connect: () => AnyBackend | Promise<AnyBackend>,
  powers: Powers & { readonly close?: () => Promise<void> } = {},
): Promise<Store> {
  const open = async (): Promise<AnyBackend> => {
    const client = await connect();
    await client.open?.(CALL);
    return client;
  };
  const clients: AnyBackend[] = [];
  for (let i = 0; i < count; i++) clients.push(await open());
  const fromMs = performance.now();
  return {
    what,
    clients,
    carry: async (call) => call(),
    until: (awaited, isSo) => until(awaited, isSo),
    nowMs: () => performance.now() - fromMs,
    pass: async () => undefined,
    ...powers,
    async close() {
      for (const client of clients) await client.close();
      await powers.close?.();
    },
  };
}

/** Resolves once it is so. */
export async function until(
  awaited: string,
  isSo: () => boolean | Promise<boolean>,
): Promise<void> {
  const fromMs = performance.now();
  while (!(await isSo())) {
    if (performance.now() - fromMs > LIMIT_MS) {
      throw new Error(`waited ${LIMIT_MS} ms for ${awaited}`);
    }
    await sleep(LOOK_EVERY_MS);
  }
}
