/**
 * Fence over keys of etcd: mark, check and changes are one transaction.
 *
 * A step looks at the mark and decides by the rules that all fences share; the transaction is
 * carried out only if the mark is still the one that was looked at.
 *
 * Not promised: anything about code that writes the same keys without a handle; but what a work has
 * read is what stands there when it writes, or nothing is written. A restored snapshot takes marks
 * back together with the data.
 */
import { ArgumentTypeError, LeaseLostError, UnavailableError } from "../../core/errors.js";
import { checkName } from "../../core/names.js";
import type { TokenBearer } from "../../core/token.js";
import { checkBearer, throwIfAborted } from "../bearer.js";
import type {
  Fence,
  FenceCall,
  FenceOptions,
  FenceRuntime,
  FenceStore,
  OnStale,
  Ran,
  Work,
} from "../contract.js";
import { decide, rebase, type FenceRequest, type MarkRecord, type Verdict } from "../decide.js";
import { createFence } from "../fence.js";
import { recordFromJson, recordToJson } from "../record.js";
import type { EtcdGateway } from "./client.js";
import { Steps, type Seen, type Unmet } from "./steps.js";
import type { EtcdReadTx, EtcdTx } from "./transaction.js";

/** Options of an etcd fence. */
export interface EtcdFenceOptions<S extends OnStale = "reject"> extends FenceOptions<S> {
  /** Beginning of the keys of marks, with a slash at its end. Default `tenure/fence/`. */
  readonly prefix?: string;
  /** Beginning of the keys of leases, for the held check. Default `tenure/`. */
  readonly leasePrefix?: string;
}

/** A fence over keys of etcd. Work may be asynchronous. */
export interface EtcdFence<S extends OnStale = "reject"> extends Fence<EtcdTx, EtcdReadTx, S> {
  /**
   * Held check: for a lease kept in the same cluster, one transaction says that the lease's record
   * still has this token, and writes. It needs no arming, and no mark is raised: it refuses
   * whoever has lost its lease, at once. Writes of one lease that overlap fail rather than undo
   * each other.
   *
   * @throws LeaseLostError when the record says otherwise; nothing was written.
   */
  held<R>(bearer: TokenBearer, work: (tx: EtcdTx) => R): Promise<Awaited<R>>;
  /** Closes the client, if it was made from a URL or a list of hosts. */
  close(): void;
}

/** What a fence is made of. */
export interface EtcdFenceParts {
  readonly gateway: EtcdGateway;
  readonly close: () => void;
  readonly runtime: FenceRuntime;
}

const BACKEND = "etcd";

/** @throws TypeError or RangeError for wrong options. */
export function createEtcdFence<S extends OnStale = "reject">(
  { gateway, close, runtime }: EtcdFenceParts,
  options: EtcdFenceOptions<S> = {},
): EtcdFence<S> {
  const prefix = checkPrefix(options.prefix ?? "tenure/fence/", "prefix");
  const leasePrefix = checkPrefix(options.leasePrefix ?? "tenure/", "leasePrefix");
  const steps = new Steps(gateway);
  const newId = (): string => runtime.random.id();
  const fence = createFence<EtcdTx, EtcdReadTx, S>(
    etcdStore({ gateway, newId }, prefix),
    runtime,
    options,
  );
  return {
    arm: (bearer, resource) => fence.arm(bearer, resource),
    armAll: (bearer, resources) => fence.armAll(bearer, resources),
    resource: (name) => fence.resource(name),
    mark: (resource) => fence.mark(resource),
    rebase: (resource, to) => fence.rebase(resource, to),
    held: async <R>(bearer: TokenBearer, work: (tx: EtcdTx) => R): Promise<Awaited<R>> => {
      const armer = checkBearer(bearer);
      const { scope, holder, token } = armer;
      const { name } = scope;
      const lease = `${leasePrefix}leases/${part(name)}/${part(holder)}`;
      const during = "write while held";
      throwIfAborted(armer);
      const seen = await steps.look([lease], during, name);
      const [record] = seen.kvs;
      if (record?.create_revision !== String(token)) throw lost(name, token);
      const { result, notebook } = await steps.work(seen, during, work);
      throwIfAborted(armer);
      // The record's changes number the writes of this lease: a copy that comes late does nothing.
      const by = newId();
      const value = JSON.stringify({ ...entryOf(steps.text(record)), by });
      const outcome = await steps.commit(
        {
          compare: [
            steps.isCreatedIn(lease, token),
            steps.isUnchanged(lease, record),
            ...notebook.compare,
          ],
          changes: [steps.put(lease, value, record.lease), ...notebook.changes],
        },
        [lease],
        during,
        name,
      );
      if (outcome === "done" || isBy(steps.text(outcome.kvs[0]), by)) return result;
      steps.checkUndone(record, outcome, during);
      if (outcome.kvs[0]?.create_revision !== String(token)) throw lost(name, token);
      throw changedMeanwhile(during, name);
    },
    close,
  };
}

/** The store alone, for those who put something between a handle and it. */
export function etcdStore(
  { gateway, newId }: { readonly gateway: EtcdGateway; readonly newId: () => string },
  prefix: string,
): FenceStore<EtcdTx, EtcdReadTx> {
  const steps = new Steps(gateway);
  const keyOf = (resource: string): string => `${prefix}${part(resource)}`;

  const read = (seen: Seen, resource: string): MarkRecord | null => {
    const text = steps.text(seen.kvs[0]);
    if (text === undefined) return null;
    try {
      return recordFromJson(JSON.parse(text));
    } catch (cause) {
      const what = `the mark of ${JSON.stringify(resource)} is damaged`;
      throw new UnavailableError(what, { backend: BACKEND, retryable: false, cause });
    }
  };

  const look = (resource: string, during: string): Promise<Seen> =>
    steps.look([keyOf(resource)], during);

  /** Replaces the mark that was seen. `by` tells a copy of our own from another's change. */
  async function replace(
    resource: string,
    seen: Seen,
    record: MarkRecord,
    during: string,
    more: { readonly compare: readonly object[]; readonly changes: readonly object[] },
  ): Promise<"done" | Unmet> {
    const key = keyOf(resource);
    const by = newId();
    const value = JSON.stringify({ ...recordToJson(record), by });
    const outcome = await steps.commit(
      {
        compare: [steps.isUnchanged(key, seen.kvs[0]), ...more.compare],
        changes: [steps.put(key, value), ...more.changes],
      },
      [key],
      during,
    );
    if (outcome === "done" || isBy(steps.text(outcome.kvs[0]), by)) return "done";
    return outcome;
  }

  const nothing = { compare: [], changes: [] };

  return {
    kind: BACKEND,
    work: "async",
    load: async (resource) => read(await look(resource, "read the mark"), resource),
    arm: async (request: FenceRequest, call: FenceCall): Promise<Verdict> => {
      const { resource } = request;
      const during = `arm ${JSON.stringify(resource)}`;
      throwIfAborted(call);
      let seen = await look(resource, during);
      for (;;) {
        const verdict = decide(read(seen, resource), request);
        if (!verdict.accepted) return verdict;
        throwIfAborted(call);
        const outcome = await replace(resource, seen, verdict.record, during, nothing);
        if (outcome === "done") return verdict;
        seen = outcome;
      }
    },
    read: async <R>(request: FenceRequest, work: Work<EtcdReadTx, R>): Promise<Ran<R>> => {
      const { resource } = request;
      const during = `read ${JSON.stringify(resource)}`;
      const seen = await look(resource, during);
      const verdict = decide(read(seen, resource), request);
      if (!verdict.accepted) return verdict;
      // All of one revision, the mark's included: the check and the reads are one step.
      const { result } = await steps.work(seen, during, work);
      return { accepted: true, result };
    },
    write: async <R>(
      request: FenceRequest,
      work: Work<EtcdTx, R>,
      call: FenceCall,
    ): Promise<Ran<R>> => {
      const { resource } = request;
      const during = `write ${JSON.stringify(resource)}`;
      const seen = await look(resource, during);
      const verdict = decide(read(seen, resource), request);
      if (!verdict.accepted) return verdict;
      const { result, notebook } = await steps.work(seen, during, work);
      throwIfAborted(call);
      const outcome = await replace(resource, seen, verdict.record, during, notebook);
      if (outcome === "done") return { accepted: true, result };
      steps.checkUndone(seen.kvs[0], outcome, during);
      const again = decide(read(outcome, resource), request);
      if (!again.accepted) return again;
      throw changedMeanwhile(during);
    },
    rebase: async (request) => {
      const { resource } = request;
      const during = `rebase ${JSON.stringify(resource)}`;
      let seen = await look(resource, during);
      for (;;) {
        const before = read(seen, resource);
        const after = rebase(before, request);
        if (after === before) return { before, after };
        const outcome = await replace(resource, seen, after, during, nothing);
        if (outcome === "done") return { before, after };
        seen = outcome;
      }
    },
  };
}

function checkPrefix(prefix: unknown, option: string): string {
  const text = checkName(prefix, option);
  if (text.endsWith("/")) return text;
  throw new ArgumentTypeError(option, prefix, 'text that ends with "/"');
}

/** As the backend writes names in its keys: no name is part of another. */
function part(text: string): string {
  return text.replaceAll("%", "%25").replaceAll("/", "%2F");
}

/** Whether a mark or a record was last changed by this transaction, of which a copy came first. */
function isBy(text: string | undefined, by: string): boolean {
  return entryOf(text)["by"] === by;
}

/** The value of a mark or a record; nothing of one that is damaged. */
function entryOf(text: string | undefined): Readonly<Record<string, unknown>> {
  try {
    const json: unknown = JSON.parse(text ?? "{}");
    return typeof json === "object" && json !== null ? { ...json } : {};
  } catch {
    return {};
  }
}

function lost(lock: string, token: bigint): LeaseLostError {
  const text = `the store no longer has token ${token} of this holder`;
  return new LeaseLostError(text, { reason: "absent", lock, backend: BACKEND });
}

function changedMeanwhile(during: string, lock?: string): UnavailableError {
  const text = `cannot ${during}: what its work had read was changed meanwhile, past the fence`;
  return new UnavailableError(text, { backend: BACKEND, ...(lock === undefined ? {} : { lock }) });
}
