import type { TokenBearer } from "./token.js";

/**
 * Something that can be armed with a lease before the work begins: a resource of a fence. `hold`
 * arms what its options name and hands the armed handles to the work.
 */
export interface ArmTarget<A> {
  arm(bearer: TokenBearer): Promise<A>;
}

/** Armed handles under the names that the caller gave their resources. */
export type Armed<R extends Readonly<Record<string, ArmTarget<unknown>>>> = {
  readonly [K in keyof R]: R[K] extends ArmTarget<infer A> ? A : never;
};
