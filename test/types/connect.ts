/** What must compile, and what must not: checked by `tsc`, never run. */
import { connect } from "../../src/connect.js";
import type { ArmTarget } from "../../src/core/arm.js";
import type { Backend } from "../../src/core/backend.js";
import type { Purpose } from "../../src/core/guarantee.js";
import type { Lease } from "../../src/core/lease.js";
import type { FencingToken, TokenBearer } from "../../src/core/token.js";

type Same<A, B> =
  (<X>() => X extends A ? 1 : 2) extends <X>() => X extends B ? 1 : 2 ? true : false;
function same<A, B>(..._proof: Same<A, B> extends true ? [] : [never]): void {}

declare const withTokens: Backend<FencingToken>;
declare const without: Backend<undefined>;
declare const purpose: Purpose;
declare const account: ArmTarget<{ write(): void }>;

export async function purposes(): Promise<void> {
  const correct = await connect("memory:");
  same<Awaited<ReturnType<typeof correct.acquire>>["token"], FencingToken>();
  const said = await connect("memory:", { purpose: "correctness" });
  same<Awaited<ReturnType<typeof said.acquire>>["token"], FencingToken>();
  const efficient = await connect("memory:", { purpose: "efficiency" });
  same<Awaited<ReturnType<typeof efficient.acquire>>["token"], FencingToken | undefined>();
  const unknown = await connect("memory:", { purpose });
  same<Awaited<ReturnType<typeof unknown.acquire>>["token"], FencingToken | undefined>();
  const required = await connect("memory:", { require: "consensus" });
  same<Awaited<ReturnType<typeof required.acquire>>["token"], FencingToken>();
  // @ts-expect-error no such purpose
  await connect("memory:", { purpose: "speed" });
  // @ts-expect-error no such requirement
  await connect("memory:", { require: "some" });
}

export async function backends(): Promise<void> {
  const own = await connect(withTokens);
  same<Awaited<ReturnType<typeof own.acquire>>["token"], FencingToken>();
  const ownEfficient = await connect(withTokens, { purpose: "efficiency" });
  same<Awaited<ReturnType<typeof ownEfficient.acquire>>["token"], FencingToken>();
  const none = await connect(without, { purpose: "efficiency" });
  same<Awaited<ReturnType<typeof none.acquire>>["token"], undefined>();
  // @ts-expect-error a store without tokens is for efficiency only
  await connect(without);
  // @ts-expect-error a store without tokens is for efficiency only
  await connect(without, { purpose: "correctness" });
}

export async function bearers(): Promise<void> {
  const take = (bearer: TokenBearer): bigint => bearer.token;
  const correct = await (await connect("memory:")).acquire("x");
  take(correct);
  const efficient = await (await connect("memory:", { purpose: "efficiency" })).acquire("x");
  // @ts-expect-error its token may be undefined
  take(efficient);
  const none: Lease<undefined> = await (
    await connect(without, { purpose: "efficiency" })
  ).acquire("x");
  // @ts-expect-error it has no token
  take(none);
  // @ts-expect-error a bigint alone is no token: parse or convert it
  take({ name: "x", holder: "h", storeId: "s", token: 3n });
}

export async function holds(): Promise<void> {
  const correct = await connect("memory:");
  const result = await correct.hold("x", { arm: { account } }, (lease, armed) => {
    same<typeof lease, Lease<FencingToken>>();
    armed.account.write();
    return 7;
  });
  same<typeof result, number>();
  const maybe = await connect("memory:", { purpose: "efficiency" });
  // @ts-expect-error nothing can be armed with a lease that may have no token
  await maybe.hold("x", { arm: { account } }, () => 7);
  await maybe.hold("x", { onUnavailable: "proceed" }, (lease) => {
    same<typeof lease, Lease<FencingToken | undefined> | undefined>();
  });
  const tried = await correct.tryAcquire("x");
  // @ts-expect-error it may be null
  tried.release();
  // @ts-expect-error tryAcquire does not wait
  await correct.tryAcquire("x", { wait: "1s" });
}
