/** What a simulated store is: the same contract as a backend's, in one place and at once. */
import type {
  AcquireRequest,
  Grant,
  Held,
  Released,
  ReleaseRequest,
  Renewed,
} from "../../core/backend.js";
import type { Manifest } from "../../core/manifest.js";
import type { FencingToken } from "../../core/token.js";

/** What an acquire came to. */
export type Acquired<T extends FencingToken | undefined> =
  { readonly grant: Grant<T> } | { readonly held: Held };

/** What a waiter hears. */
export type TellWaiter<T extends FencingToken | undefined> = (what: Grant<T> | "gone") => void;

/** Waiters in the store, in order of arrival. */
export interface ModelQueue<T extends FencingToken | undefined> {
  enqueue(request: AcquireRequest, tell: TellWaiter<T>): void;
  /** Says that a waiter lives. */
  touch(name: string, holder: string): "waiting" | "gone" | Grant<T>;
  leave(name: string, holder: string): void;
}

/** Sessions whose end ends their records. */
export interface ModelSessions {
  open(ttlMs: number): { readonly id: string; readonly ttlMs: number };
  keepAlive(id: string): "alive" | "gone";
  close(id: string): void;
}

/**
 * A store, as its server runs it: every method is one atomic step, and answers at once. A step that
 * the store refuses throws `UnavailableError`.
 */
export interface StoreModel<T extends FencingToken | undefined = FencingToken> {
  readonly manifest: Manifest<T>;
  readonly storeId: string;
  acquire(request: AcquireRequest): Acquired<T>;
  renew(grant: Grant<T>): Renewed;
  release(request: ReleaseRequest<T>): Released;
  break(name: string, token: bigint): boolean;
  inspect(name: string): Held | null;
  list(prefix: string): readonly (Held & { readonly name: string })[];
  /** Called at every release and expiry that leaves a name free. */
  onFreed?: (name: string) => void;
  readonly queue?: ModelQueue<T> | undefined;
  readonly sessions?: ModelSessions | undefined;
}

/** Whether a record is what a release means: a grant, or an attempt, which has no token yet. */
export function isMeant(
  record: { readonly request: { readonly holder: string }; readonly token: bigint },
  { holder, token }: Pick<ReleaseRequest, "holder" | "token">,
): boolean {
  return record.request.holder === holder && (token === undefined || record.token === token);
}
