import { memoryBackend, type MemoryProof } from "../../src/backends/memory/index.js";
import { MemoryStore } from "../../src/backends/memory/store.js";
import type { Runtime } from "../../src/core/runtime.js";
import { Tenure } from "../../src/core/tenure.js";
import { simulatedRuntime } from "../../src/testing/simulated-runtime.js";
import type { AnyBackend, AnyTenure, Subject } from "../../src/testing/subject.js";

/** What to make of the memory backend. */
export interface MemoryVariant {
  /** Changes each client. */
  readonly wrap?: (backend: AnyBackend, runtime: Runtime) => AnyBackend;
  /** Changes the core's front on a client. */
  readonly tenure?: (tenure: AnyTenure, backend: AnyBackend, runtime: Runtime) => AnyTenure;
  /** Gives the store the power to restart, and says what its nth life begins with. */
  readonly restarts?: (nth: number) => { readonly storeId: string; readonly firstToken?: bigint };
  /** What else happens when somebody deletes a record, or the store sweeps. */
  readonly afterDeletion?: (storeId: string, name: string) => void;
  readonly afterSweep?: (storeId: string) => void;
}

/** The memory backend on simulated time. */
export function memorySubject(variant: MemoryVariant = {}): Subject {
  const simulation = simulatedRuntime({ seed: 1 });
  const { runtime } = simulation;
  return {
    time: simulation,
    async connect(backend) {
      const tenure = await Tenure.open(backend, runtime, { purpose: "efficiency" });
      return variant.tenure?.(tenure, backend, runtime) ?? tenure;
    },
    async open() {
      let nth = 1;
      let firstToken: bigint | undefined;
      let store: MemoryStore | undefined;
      const present = (): MemoryStore =>
        (store ??= new MemoryStore({
          runtime,
          ...variant.restarts?.(nth),
          ...(firstToken === undefined ? {} : { firstToken }),
        }));
      return {
        async connect() {
          const backend = memoryBackend({ runtime, store: present() });
          return variant.wrap?.(backend, runtime) ?? backend;
        },
        ...(variant.restarts === undefined
          ? {}
          : {
              async restart() {
                store?.close();
                store = undefined;
                nth += 1;
                await simulation.advance(1);
              },
            }),
        async deleteRecord(name) {
          const token = present().inspect(name)?.token;
          if (token !== undefined) present().break(name, token);
          variant.afterDeletion?.(present().storeId, name);
        },
        async sweep() {
          for (const _ of present().list(""));
          variant.afterSweep?.(present().storeId);
        },
        presetToken: async (_name, token) => void (firstToken = token),
        testProof: async (proof) => (proof as MemoryProof)(),
        openHandles: () => simulation.pendingTimers("ref"),
        dispose: async () => store?.close(),
      };
    },
  };
}
