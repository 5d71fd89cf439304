/** Leases that outlive the process that acquired them: for scripts, which are many processes. */
import type { Answer, Backend, Call, Grant, Released, Renewed } from "./backend.js";
import type { Calls } from "./call.js";
import { now } from "./deadline.js";
import {
  GuaranteeError,
  LeaseLostError,
  OutcomeUnknownError,
  UnavailableError,
} from "./errors.js";
import type { Leases } from "./keeper.js";
import { HeldLease } from "./lease.js";
import { checkName } from "./names.js";
import { checkObject, checkTokenValue } from "./options.js";
import type { LeaseTerms } from "./options.js";
import type { Runtime } from "./runtime.js";
import { toToken } from "./token.js";
import type { FencingToken } from "./token.js";

/** What another process needs to go on with a lease. */
export interface DetachedLease {
  readonly name: string;
  readonly holder: string;
  readonly token: bigint;
}

/** Hands leases over between processes. */
export class Detaching<T extends FencingToken | undefined> {
  readonly #backend: Backend<T>;
  readonly #runtime: Runtime;
  readonly #calls: Calls;
  readonly #leases: Leases<T>;

  constructor(backend: Backend<T>, runtime: Runtime, calls: Calls, leases: Leases<T>) {
    this.#backend = backend;
    this.#runtime = runtime;
    this.#calls = calls;
    this.#leases = leases;
  }

  detach(lease: HeldLease<T>): DetachedLease {
    this.#checkPossible();
    lease.assertHeld();
    this.#leases.forget(lease);
    lease.handOver();
    const { name, holder, token } = lease;
    return { name, holder, token: token! };
  }

  async adopt(detached: DetachedLease, terms: LeaseTerms): Promise<HeldLease<T>> {
    const grant: Grant<T> = { ...this.#checked(detached), ttlMs: terms.ttlMs };
    const sentAt = now(this.#runtime.clock);
    const ask = (call: Call): Answer<readonly Renewed[]> => this.#backend.renew([grant], call);
    const [renewed] = await this.#calls.run("renew", grant.name, ask);
    if (renewed !== "renewed") throw this.#refusal(grant, renewed);
    const lease = new HeldLease(grant, terms, sentAt, this.#leases);
    this.#leases.keep(lease, 0);
    const lost = lease.lostError();
    if (lost !== undefined) throw lost;
    // Also one whose clock is in doubt, as of `acquire`: thrown away here, it would be renewed on.
    return lease;
  }

  async giveBack(detached: DetachedLease): Promise<"released" | "not-held"> {
    const { name, holder, token } = this.#checked(detached);
    const request = { name, holder, token: token as T & {} };
    const ask = (call: Call): Answer<readonly Released[]> => this.#backend.release([request], call);
    const [answer = "unknown"] = await this.#calls.run("release", name, ask);
    if (answer !== "unknown") return answer;
    const text = `the release of ${JSON.stringify(name)} may have failed`;
    throw new OutcomeUnknownError(text, this.#about(name));
  }

  #checked(detached: DetachedLease): { name: string; holder: string; token: T } {
    this.#checkPossible();
    checkObject(detached, "detached");
    const { name, holder, token } = detached;
    checkTokenValue(token, "token");
    return {
      name: checkName(name),
      holder: checkName(holder, "holder"),
      token: toToken(token) as T,
    };
  }

  #refusal({ name, holder, token }: Grant<T>, renewed: Renewed | undefined): Error {
    const text = JSON.stringify(name);
    if (renewed === "unavailable") {
      return new UnavailableError(`${text} could not be renewed`, this.#about(name));
    }
    if (typeof renewed !== "object") {
      return new OutcomeUnknownError(`${text} may have been renewed`, this.#about(name));
    }
    const by = renewed.lost === "absent" ? undefined : renewed.lost;
    return new LeaseLostError(`${text} is no longer held by ${holder} with token ${token}`, {
      ...this.#about(name),
      reason: by === undefined ? "absent" : "taken",
      ...(by === undefined ? {} : { by }),
    });
  }

  #checkPossible(): void {
    const { manifest, sessions } = this.#backend;
    if (sessions === undefined && manifest.tokens !== "none") return;
    const why = sessions === undefined ? "it has no token" : "it ends with its session";
    const text = `a lease of ${manifest.backend} cannot be handed to another process: ${why}`;
    throw new GuaranteeError(text, { backend: manifest.backend });
  }

  #about(lock: string): { readonly lock: string; readonly backend: string } {
    return { lock, backend: this.#backend.manifest.backend };
  }
}
