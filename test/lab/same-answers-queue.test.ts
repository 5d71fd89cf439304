import { expect, test } from "vitest";
import { memoryBackend } from "../../src/backends/memory/index.js";
import { MemoryStore } from "../../src/backends/memory/store.js";
import type { Backend, Grant, QueueWaiting, Ticket } from "../../src/core/backend.js";
import { SimulatedProcess } from "../../src/lab/process.js";
import { remoteBackend } from "../../src/lab/remote.js";
import { LeaseTable } from "../../src/lab/stores/lease-table.js";
import { World } from "../../src/lab/world.js";
import { InstantNetwork } from "./instant-network.js";
import { CALL, drawSteps, type Step } from "./random-steps.js";

/** A store with a queue: what its waiters are told, in terms that all share. */
class AskedQueue {
  readonly #backend: Backend;
  readonly #queue: QueueWaiting;
  readonly #tickets = new Map<string, Ticket>();
  readonly #grants: Grant[] = [];

  constructor(backend: Backend) {
    this.#backend = backend;
    if (backend.waiting.kind !== "queue") throw new Error("there is no queue");
    this.#queue = backend.waiting;
  }

  async ask({ op, name, holder, ttlMs, nth }: Step): Promise<unknown> {
    const backend = this.#backend;
    const id = `${name} ${holder}`;
    const ticket = this.#tickets.get(id);
    const grant = this.#grants[Math.floor(nth * this.#grants.length)];
    switch (op) {
      case "acquire": {
        if (ticket !== undefined) return "waits already";
        this.#tickets.set(id, await this.#queue.enqueue({ name, holder, ttlMs }, CALL));
        return "waits";
      }
      case "clean up":
        this.#tickets.delete(id);
        await ticket?.leave(CALL);
        return "left";
      case "renew": {
        if (grant === undefined) return "nothing to renew";
        const [outcome] = await backend.renew([grant], CALL);
        if (outcome === "renewed") this.#tickets.delete(`${grant.name} ${grant.holder}`);
        return typeof outcome === "object" ? "lost" : outcome;
      }
      case "release":
        return grant === undefined ? "nothing to release" : await backend.release([grant], CALL);
      case "inspect": {
        const held = await backend.inspect(name, CALL);
        return held === null ? null : { holder: held.holder, waiters: held.waiters ?? 0 };
      }
      default:
        return await this.#touch();
    }
  }

  /** Says that all live, and notes the offers. */
  async #touch(): Promise<unknown> {
    const all = [...this.#tickets].sort(([a], [b]) => (a < b ? -1 : 1));
    const outcomes = await this.#queue.touch(all.map(([, ticket]) => ticket), CALL);
    return all.map(([id], i) => {
      const outcome = outcomes[i]!;
      if (typeof outcome === "string") {
        if (outcome === "gone") this.#tickets.delete(id);
        return `${id}: ${outcome}`;
      }
      const { name, token } = outcome;
      const isKnown = this.#grants.some((grant) => grant.name === name && grant.token === token);
      if (!isKnown) this.#grants.push(outcome);
      return `${id}: an offer`;
    });
  }
}

test("the queue of the lab's single store answers as that of memory does", async () => {
  const seen = new Map<string, number>();
  for (let seed = 1; seed <= 20; seed++) {
    const world = new World(seed);
    const { runtime } = new SimulatedProcess(world, "real");
    const model = new LeaseTable(new SimulatedProcess(world, "store"), { waiting: "queue" });
    const client = new SimulatedProcess(world, "client");
    const network = new InstantNetwork(world);
    const stores: readonly Backend[] = [
      remoteBackend(client, network, () => ({ server: model.server, model })),
      memoryBackend({ runtime, store: new MemoryStore({ runtime }) }),
    ];
    const [one, other] = stores.map((backend) => new AskedQueue(backend));
    for (const [i, step] of drawSteps(seed).entries()) {
      // Nobody falls silent: whoever waits says so at every pause.
      if (step.op === "pause") await world.run(world.nowMs + Math.min(step.pauseMs, 400));
      const answer = await one!.ask(step);
      const text = `seed ${seed}, step ${i}, ${step.op} ${step.name} ${step.holder}`;
      expect(await other!.ask(step), text).toEqual(answer);
      const told = Array.isArray(answer) ? answer : [answer];
      for (const one of told) {
        const kind = /[a-z ]+$/.exec(JSON.stringify(one).replaceAll('"', ""))?.[0] ?? "shown";
        seen.set(kind, (seen.get(kind) ?? 0) + 1);
      }
    }
    for (const backend of stores) await backend.close();
  }
  for (const kind of [" waiting", " an offer", "renewed", "lost", "released"]) {
    expect(seen.get(kind) ?? 0, `${kind} of ${[...seen.keys()].join()}`).toBeGreaterThan(10);
  }
});
