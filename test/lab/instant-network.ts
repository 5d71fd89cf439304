import { Network } from "../../src/lab/network.js";
import type { SimulatedProcess } from "../../src/lab/process.js";

/** Messages take no time, so that a call has its answer without the world going on. */
export class InstantNetwork extends Network {
  override send(_: SimulatedProcess, to: SimulatedProcess, __: string, arrive: () => void): void {
    to.receive(arrive);
  }
}
