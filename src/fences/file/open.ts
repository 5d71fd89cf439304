import { checkKnown } from "../../core/options.js";
import { platform } from "../../platform/index.js";
import type { Fence, OnStale } from "../contract.js";
import { createFileFence, type FileFenceOptions } from "./index.js";
import type { ReadFile, WriteFile } from "./transaction.js";

export type { FencingToken, TokenBearer } from "../../core/token.js";
export { armAll, type ArmedAll } from "../arm-all.js";
export type * from "../contract.js";
export type { Mark, Scope } from "../decide.js";
export type { FileFenceOptions } from "./index.js";
export type { ReadFile, WriteFile } from "./transaction.js";

/**
 * Fence over files of one folder on this machine's own disk, shared by all processes of the
 * machine. The folder is made if only it is missing.
 *
 * A resource is not a plain file: mark and content stand in one, so that they change together. Read
 * and write it through the handle.
 *
 * @throws GuaranteeError, at the first use, on a network file system.
 */
export function fileFence<S extends OnStale = "reject">(
  directory: string,
  options: FileFenceOptions<S> = {},
): Fence<WriteFile, ReadFile, S> {
  checkKnown(options, ["onStale", "busyMs"]);
  return createFileFence(directory, platform(), options);
}
