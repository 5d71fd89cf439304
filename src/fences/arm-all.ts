import type { ArmTarget } from "../core/arm.js";
import { ArgumentTypeError } from "../core/errors.js";
import type { TokenBearer } from "../core/token.js";

/** The handles of a list of targets, in the same order. */
export type ArmedAll<T extends readonly ArmTarget<unknown>[]> = {
  readonly [K in keyof T]: T[K] extends ArmTarget<infer A> ? A : never;
};

/**
 * Arms resources of one or several fences with one lease, in the order given, and hands out all
 * handles or none.
 *
 * Not promised: that it is one step. When the second resource refuses, the first keeps its raised
 * mark, and nobody holds a handle to it. And a former holder may have written one resource and not
 * the other before this: the new holder has to look at both and repair what is half done.
 *
 * @throws TypeError when a resource is named twice: its second arming would end the first handle.
 */
export async function armAll<const T extends readonly ArmTarget<unknown>[]>(
  bearer: TokenBearer,
  targets: T,
): Promise<ArmedAll<T>> {
  checkDistinct(targets);
  const handles: unknown[] = [];
  for (const target of targets) handles.push(await target.arm(bearer));
  return handles as unknown as ArmedAll<T>;
}

function checkDistinct(targets: readonly ArmTarget<unknown>[]): void {
  const seen = new Map<unknown, Set<unknown>>();
  for (const target of targets) {
    const { fence, resource } = target as { fence?: unknown; resource?: unknown };
    const [owner, name] = fence === undefined ? [target, undefined] : [fence, resource];
    const names = seen.get(owner) ?? new Set();
    if (names.has(name)) {
      throw new ArgumentTypeError("resources", name, "distinct: each can be armed once");
    }
    seen.set(owner, names.add(name));
  }
}
