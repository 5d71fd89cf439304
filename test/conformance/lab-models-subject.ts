import { Tenure } from "../../src/core/tenure.js";
import { SimulatedProcess } from "../../src/lab/process.js";
import { remoteBackend } from "../../src/lab/remote.js";
import type { MakeStore } from "../../src/lab/simulation.js";
import { LeaseTable } from "../../src/lab/stores/lease-table.js";
import { World } from "../../src/lab/world.js";
import type { Subject } from "../../src/testing/subject.js";
import { InstantNetwork } from "../lab/instant-network.js";

/** A model of the lab as the suite meets a backend. */
export function labSubject(make: MakeStore): Subject {
  const world = new World(1);
  let born = 0;
  const process = (): SimulatedProcess => new SimulatedProcess(world, `C${++born}`);
  return {
    time: {
      advance: (ms) => world.run(world.nowMs + ms),
      async until(promise, limitMs) {
        const late = world.pass(limitMs).then(() => {
          throw new Error(`no outcome within ${limitMs} ms`);
        });
        late.catch(() => undefined);
        // All of the time passes, unless it settles before.
        return await world.until(Promise.race([promise, late]), limitMs);
      },
    },
    connect: (backend) => Tenure.open(backend, process().runtime, { purpose: "efficiency" }),
    async open() {
      const network = new InstantNetwork(world);
      const store = make(world, network);
      const { model } = store.find();
      return {
        connect: async () => remoteBackend(process(), network, store.find),
        async deleteRecord(name) {
          const token = model.inspect(name)?.token;
          if (token !== undefined) model.break(name, token);
        },
        sweep: async () => void model.list(""),
        ...(model instanceof LeaseTable
          ? { presetToken: async (name, token) => model.take(name, { counter: token - 1n }) }
          : {}),
      };
    },
  };
}
