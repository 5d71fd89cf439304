import { checkKnown } from "../../core/options.js";
import { platform } from "../../platform/index.js";
import type { Fence, FenceOptions, OnStale } from "../contract.js";
import { createMemoryFence, type Cell, type ReadCell } from "./index.js";

export type { FencingToken, TokenBearer } from "../../core/token.js";
export { armAll, type ArmedAll } from "../arm-all.js";
export type * from "../contract.js";
export type { Mark, Scope } from "../decide.js";
export type { Cell, ReadCell } from "./index.js";

/** Fence over values of this process, one value per resource. Two such fences are two stores. */
export function memoryFence<V = unknown, S extends OnStale = "reject">(
  options: FenceOptions<S> = {},
): Fence<Cell<V>, ReadCell<V>, S> {
  checkKnown(options, ["onStale"]);
  return createMemoryFence<V, S>(platform(), options);
}
