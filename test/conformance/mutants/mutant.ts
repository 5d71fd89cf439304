import type { Held } from "../../../src/core/backend.js";
import { toToken, type FencingToken } from "../../../src/core/token.js";
import type { AnyBackend } from "../../../src/testing/subject.js";
import type { MemoryVariant } from "../memory-subject.js";

/** A wrong backend and the case that must notice. */
export interface Mutant extends MemoryVariant {
  readonly title: string;
  /** Id of the case. */
  readonly caught: string;
  /** Breaks a part of the memory backend for one run; answers what mends it. */
  readonly arrange?: () => () => void;
}

/** Makes a wrong backend of a right one. */
export type Wrap = NonNullable<MemoryVariant["wrap"]>;

/** The backend with some members replaced. */
export function change(backend: AnyBackend, changes: Partial<AnyBackend>): AnyBackend {
  return { ...backend, ...changes };
}

/** The backend with another manifest. */
export function declare(
  backend: AnyBackend,
  manifest: Partial<AnyBackend["manifest"]>,
): AnyBackend {
  return change(backend, { manifest: { ...backend.manifest, ...manifest } });
}

const states = new Map<string, RecordCounters>();

/** The wrong counters of a store: they belong to it, as right ones do, and all clients share it. */
export function countersOf({ storeId }: { readonly storeId: string }): RecordCounters {
  const counters = states.get(storeId) ?? new RecordCounters();
  states.set(storeId, counters);
  return counters;
}

/** Tokens counted from 1 for each name since it was last forgotten. */
export class RecordCounters {
  readonly #base = new Map<string, bigint>();

  forget(name: string): void {
    this.#base.delete(name);
  }

  forgetAll(): void {
    this.#base.clear();
  }

  /** The backend as its callers see it, with the counters of the records as tokens. */
  over(backend: AnyBackend): AnyBackend {
    return change(backend, {
      acquire: async (request, call) => {
        const answer = await backend.acquire(request, call);
        if ("held" in answer) return { held: this.#shown(request.name, answer.held) };
        const { grant } = answer;
        if (!this.#base.has(grant.name)) this.#base.set(grant.name, grant.token! - 1n);
        return { grant: { ...grant, token: this.#out(grant.name, grant.token) } };
      },
      renew: (grants, call) => backend.renew(grants.map((grant) => this.#in(grant)), call),
      release: (requests, call) =>
        backend.release(requests.map((request) => this.#in(request)), call),
      break: (name, token, call) => backend.break(name, token + (this.#base.get(name) ?? 0n), call),
      inspect: async (name, call) => {
        const held = await backend.inspect(name, call);
        return held && this.#shown(name, held);
      },
    });
  }

  #out(name: string, token: bigint | undefined): FencingToken {
    return toToken(token! - (this.#base.get(name) ?? 0n));
  }

  #in<G extends { readonly name: string; readonly token?: FencingToken | undefined }>(grant: G): G {
    if (grant.token === undefined) return grant;
    return { ...grant, token: toToken(grant.token + (this.#base.get(grant.name) ?? 0n)) };
  }

  #shown(name: string, held: Held): Held {
    return held.token === undefined ? held : { ...held, token: this.#out(name, held.token) };
  }
}
