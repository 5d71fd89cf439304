import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { memoryBackend } from "../../src/backends/memory/index.js";
import { MemoryStore } from "../../src/backends/memory/store.js";
import { sqliteBackend } from "../../src/backends/sqlite/index.js";
import type { Backend, Grant, Held } from "../../src/core/backend.js";
import type { FencingToken } from "../../src/core/token.js";
import { isBusy, explainSqlite } from "../../src/drivers/sqlite/errors.js";
import { openSqlite } from "../../src/drivers/sqlite/open.js";
import { SimulatedProcess } from "../../src/lab/process.js";
import { remoteBackend } from "../../src/lab/remote.js";
import { LeaseTable } from "../../src/lab/stores/lease-table.js";
import { World } from "../../src/lab/world.js";
import { InstantNetwork } from "./instant-network.js";
import { CALL, drawSteps, NAMES, type Step } from "./random-steps.js";

/**
 * The model of a single store and two real ones of this process, on one simulated clock, are asked
 * the same, in the same random order. They must give the same answers, but for the tokens
 * themselves: those are told by the grant that they came with.
 */

/** Clocks of stores have steps of their own. */
const CLOCK_STEPS_MS = 25;

/** One store, and its grants in their order. */
class Asked {
  readonly #backend: Backend;
  readonly #grants: Grant[] = [];

  constructor(backend: Backend) {
    this.#backend = backend;
  }

  /** What it answers, in terms that all stores share. */
  async ask({ op, name, holder, ttlMs, nth }: Step): Promise<unknown> {
    const backend = this.#backend;
    const grant = this.#grants[Math.floor(nth * this.#grants.length)];
    switch (op) {
      case "acquire": {
        const answer = await backend.acquire({ name, holder, ttlMs }, CALL);
        if ("held" in answer) return this.#shown(name, answer.held);
        if (this.#placeOf(name, answer.grant.token) < 0) this.#grants.push(answer.grant);
        return { ...answer.grant, token: this.#placeOf(name, answer.grant.token) };
      }
      case "renew": {
        if (grant === undefined) return "nothing to renew";
        const [outcome] = await backend.renew([{ ...grant, ttlMs }], CALL);
        if (typeof outcome !== "object") return outcome;
        return outcome.lost === "absent" ? "absent" : this.#shown(grant.name, outcome.lost);
      }
      case "release":
        return grant === undefined ? "nothing to release" : await backend.release([grant], CALL);
      case "clean up":
        return await backend.release([{ name, holder }], CALL);
      case "break":
        return grant === undefined ? "nothing" : await backend.break(grant.name, grant.token, CALL);
      case "inspect": {
        const held = await backend.inspect(name, CALL);
        return held === null ? null : this.#shown(name, held);
      }
      case "list": {
        const names: string[] = [];
        for await (const { name: listed } of backend.list("", CALL)) names.push(listed);
        return names.sort();
      }
      case "pause":
        return "later";
    }
  }

  /** Tokens in the order of their grants, for each name. */
  tokensOf(name: string): readonly FencingToken[] {
    return this.#grants.filter((grant) => grant.name === name).map(({ token }) => token);
  }

  /** Tokens of two names do not compare, and may be the same. */
  #placeOf(name: string, token: bigint | undefined): number {
    return this.#grants.findIndex((grant) => grant.name === name && grant.token === token);
  }

  #shown(name: string, { holder, token, ttlMs, leftMs }: Held): unknown {
    return { holder, ttlMs, of: this.#placeOf(name, token), left: leftMs };
  }
}

/** The same, but for the steps of clocks. */
function alike(one: unknown, other: unknown): boolean {
  if (typeof one !== "object" || one === null || !("left" in one)) return equal(one, other);
  const [a, b] = [one, other] as { readonly left?: number }[];
  const { left, ...rest } = a!;
  const { left: otherLeft, ...otherRest } = b ?? {};
  return equal(rest, otherRest) && Math.abs((left ?? 0) - (otherLeft ?? -1e9)) <= CLOCK_STEPS_MS;
}

function equal(one: unknown, other: unknown): boolean {
  return JSON.stringify(one) === JSON.stringify(other);
}

let folder: string;
beforeAll(() => void (folder = mkdtempSync(join(tmpdir(), "tenure-"))));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function storesOf(world: World, path: string): Promise<Readonly<Record<string, Backend>>> {
  const { runtime } = new SimulatedProcess(world, "real");
  const model = new LeaseTable(new SimulatedProcess(world, "store"));
  const client = new SimulatedProcess(world, "client");
  const network = new InstantNetwork(world);
  const database = await openSqlite(path);
  const file = sqliteBackend({
    database,
    faults: {
      isBusy,
      explain: (error, during) =>
        explainSqlite(error, { file: path, during, backend: "sqlite", committing: true }),
    },
    // The machine's clock, too, is the world's.
    machine: {
      bootId: "boot",
      clockId: "clock",
      pid: 1,
      tempFolder: folder,
      refusalIsProof: true,
      nowMs: () => runtime.clock.monotonicMs(),
    },
    runtime,
  });
  await file.open?.(CALL);
  return {
    model: remoteBackend(client, network, () => ({ server: model.server, model })),
    memory: memoryBackend({ runtime, store: new MemoryStore({ runtime }) }),
    sqlite: file,
  };
}

test("the lab's single store answers as memory and SQLite do", async () => {
  const seen = new Map<string, number>();
  for (let seed = 1; seed <= 20; seed++) {
    const world = new World(seed);
    const stores = await storesOf(world, join(folder, `${seed}.db`));
    const asked = Object.entries(stores).map(([name, backend]) => {
      return { name, store: new Asked(backend) };
    });
    for (const [i, step] of drawSteps(seed).entries()) {
      if (step.op === "pause") await world.run(world.nowMs + step.pauseMs);
      const [model, ...others] = await Promise.all(
        asked.map(async ({ name, store }) => ({ name, answer: await store.ask(step) })),
      );
      for (const { name, answer } of others) {
        const text = `seed ${seed}, step ${i}, ${step.op} ${step.name}: ${name} says otherwise`;
        if (!alike(model!.answer, answer)) expect(model!.answer, text).toEqual(answer);
      }
      const shown = typeof model!.answer === "object" ? "shown" : JSON.stringify(model!.answer);
      const kind = `${step.op} ${shown}`;
      seen.set(kind, (seen.get(kind) ?? 0) + 1);
    }
    for (const { store } of asked) {
      for (const name of NAMES) {
        const tokens = store.tokensOf(name);
        expect([...tokens].sort((a, b) => (a < b ? -1 : 1))).toEqual(tokens);
      }
    }
    for (const backend of Object.values(stores)) await backend.close();
  }
  // What the random order is to bring about, it did.
  const wanted = ['renew "renewed"', 'renew "absent"', "renew shown", "break true", "break false"];
  for (const kind of wanted) {
    expect(seen.get(kind) ?? 0, kind).toBeGreaterThan(10);
  }
});
