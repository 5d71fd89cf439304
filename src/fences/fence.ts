import { ArgumentTypeError } from "../core/errors.js";
import { checkName } from "../core/names.js";
import { checkObject } from "../core/options.js";
import type { TokenBearer } from "../core/token.js";
import { armAll } from "./arm-all.js";
import { checkBearer, checkScope, throwIfAborted } from "./bearer.js";
import type {
  ArmedHandle,
  Fence,
  FenceCall,
  FencedResource,
  FenceOptions,
  FenceRuntime,
  FenceStore,
  OnStale,
} from "./contract.js";
import { toMark, type FenceRequest, type Mark, type Scope } from "./decide.js";
import { Handle, isOf, type Shared } from "./handle.js";
import { formatScope, refuse } from "./refusal.js";

const MODES: readonly OnStale[] = ["reject", "ignore", "log"];
const UNBOUND: FenceCall = { signal: undefined, remainingMs: () => Infinity };

/** The fence over a store. @throws TypeError for an unknown `onStale`. */
export function createFence<Tx, Read, S extends OnStale = "reject">(
  store: FenceStore<Tx, Read>,
  runtime: FenceRuntime,
  options: FenceOptions<S> = {},
): Fence<Tx, Read, S> {
  checkObject(options, "options");
  const onStale: OnStale = options.onStale ?? "reject";
  if (!MODES.includes(onStale)) {
    throw new ArgumentTypeError("onStale", onStale, '"reject", "ignore" or "log"');
  }
  return new StoreFence<Tx, Read, S>({ store, runtime, onStale });
}

class StoreFence<Tx, Read, S extends OnStale> implements Fence<Tx, Read, S> {
  readonly #shared: Shared<Tx, Read>;

  constructor(shared: Shared<Tx, Read>) {
    this.#shared = shared;
  }

  async arm(bearer: TokenBearer, resource: string): Promise<ArmedHandle<Tx, Read, S>> {
    checkName(resource, "resource");
    const armer = checkBearer(bearer);
    const { scope, token, holder } = armer;
    const { store } = this.#shared;
    // Ends: an arming is refused as superseded only when another one of this holder was accepted.
    for (;;) {
      throwIfAborted(armer);
      const seen = await store.load(resource, armer);
      const arm = isOf(seen, armer) ? seen.arm + 1 : 1;
      const request: FenceRequest = { op: "arm", resource, scope, token, holder, arm, n: 0 };
      const verdict = await store.arm(request, armer);
      if (verdict.accepted) return new Handle<Tx, Read, S>(this.#shared, armer, resource, arm);
      if (verdict.why !== "superseded") throw refuse(this.#shared, request, verdict);
    }
  }

  async armAll(
    bearer: TokenBearer,
    resources: readonly string[],
  ): Promise<readonly ArmedHandle<Tx, Read, S>[]> {
    const given: unknown = resources;
    if (!Array.isArray(given)) {
      throw new ArgumentTypeError("resources", resources, "a list of names");
    }
    return await armAll(
      bearer,
      resources.map((name) => this.resource(name)),
    );
  }

  resource(name: string): FencedResource<Tx, Read, S> {
    const resource = checkName(name, "resource");
    return { fence: this, resource, arm: (bearer) => this.arm(bearer, resource) };
  }

  async mark(resource: string): Promise<Mark | null> {
    const record = await this.#shared.store.load(checkName(resource, "resource"), UNBOUND);
    return record === null ? null : toMark(record);
  }

  async rebase(
    resource: string,
    options: { readonly to: Scope | TokenBearer; readonly reason: string },
  ): Promise<Mark> {
    checkName(resource, "resource");
    checkObject(options, "options");
    const reason = checkName(options.reason, "reason");
    const { to } = options;
    checkObject(to, "to");
    const lease = "token" in to ? checkBearer(to) : undefined;
    const { store, runtime } = this.#shared;
    const { before, after } = await store.rebase(
      {
        resource,
        to: lease?.scope ?? checkScope(to),
        reason,
        ...(lease === undefined ? {} : { lease: { token: lease.token, holder: lease.holder } }),
      },
      UNBOUND,
    );
    if (before !== after) {
      const from = before === null ? "nowhere" : formatScope(before.scope);
      const about = { name: resource, backend: store.kind };
      runtime.events.publish({
        type: "rebased", ...about, from, to: formatScope(after.scope), reason,
      });
    }
    return toMark(after);
  }
}
