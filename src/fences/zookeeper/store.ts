/** Marks as nodes: the check of a mark's version and the changes of a write are one transaction. */
import { UnavailableError } from "../../core/errors.js";
import type { Timers } from "../../core/clock.js";
import { throwIfAborted } from "../bearer.js";
import type { FenceCall, FenceStore, Ran, Work } from "../contract.js";
import { decide, rebase, type FenceRequest, type MarkRecord } from "../decide.js";
import { recordFromJson, recordToJson } from "../record.js";
import type {
  Bounds,
  Change,
  Committed,
  FenceClient,
  Faults,
  FenceSession,
  Node,
} from "./client.js";
import { Notebook, type ZookeeperReadTx, type ZookeeperTx } from "./transaction.js";

/** What the store of a fence works with. */
export interface ZookeeperStoreParts {
  readonly client: FenceClient;
  readonly faults: Faults;
  readonly timers: Timers;
  /** Node of all that is Tenure's, chroot included. */
  readonly base: string;
}

/** Longest that one step may take, milliseconds; less where the lease has less left. */
const LONGEST_STEP_MS = 5_000;

interface Seen {
  readonly session: FenceSession;
  readonly node: Node | undefined;
  readonly record: MarkRecord | null;
}

/** The name of a node for any text: as the backend's folders. */
export function encodeSegment(text: string): string {
  return encodeURIComponent(text).replace(/^\./, "%2E");
}

/** Runs a step within the time of its lease, its errors told as ours. */
export async function bounded<R>(
  { timers, faults }: Pick<ZookeeperStoreParts, "timers" | "faults">,
  during: string,
  call: FenceCall,
  step: (bounds: Bounds) => Promise<R>,
): Promise<R> {
  throwIfAborted(call);
  const timeoutMs = Math.max(1, Math.min(LONGEST_STEP_MS, call.remainingMs()));
  const controller = new AbortController();
  const timer = timers.after(timeoutMs, () => controller.abort(new Error("its time is over")));
  try {
    return await step({ signal: controller.signal, timeoutMs });
  } catch (error) {
    if (error instanceof WorkError) throw error.cause;
    throw faults.explain(error, { during, backend: "zookeeper" });
  } finally {
    timer.cancel();
  }
}

/** Carries what the caller's work threw past the translation of the store's own errors. */
class WorkError extends Error {
  constructor(cause: unknown) {
    super("the work failed", { cause });
  }
}

/** Runs work, its errors kept apart. */
export async function runWork<T, R>(work: Work<T, R>, tx: T): Promise<R> {
  try {
    return await work(tx);
  } catch (error) {
    throw new WorkError(error);
  }
}

/** What to throw where a change of the work was refused: nothing was changed. */
export function refusedChange(
  during: string,
  changes: readonly Change[],
  { why, place }: Extract<Committed, { readonly ok: false }>,
): UnavailableError {
  const { kind, path } = changes[place - 1] ?? { kind: "change", path: "" };
  return new UnavailableError(
    `cannot ${during}: its ${kind} of ${JSON.stringify(path)} was refused (${why}), and nothing ` +
      "was changed",
    { backend: "zookeeper", retryable: false },
  );
}

/** The store alone, for those who put something between a handle and it. */
export function zookeeperStore(
  parts: ZookeeperStoreParts,
): FenceStore<ZookeeperTx, ZookeeperReadTx> {
  const { client, base } = parts;
  const folder = `${base}/fences`;
  const pathOf = (resource: string): string => `${folder}/${encodeSegment(resource)}`;

  async function look(resource: string, bounds: Bounds): Promise<Seen> {
    return client.use(bounds, async (session) => {
      const node = await session.node(pathOf(resource), bounds, { fresh: true });
      return { session, node, record: node === undefined ? null : parse(node, resource) };
    });
  }

  /** Puts a record in the place of what was seen. False when it is not what was seen any more. */
  async function put(
    { session, node }: Seen,
    resource: string,
    record: MarkRecord,
    bounds: Bounds,
  ): Promise<boolean> {
    const data = toData(record);
    const path = pathOf(resource);
    if (node !== undefined) {
      const { version } = node.stat;
      return (await session.commit([{ kind: "set", path, data, version }], bounds)).ok;
    }
    const create: Change = { kind: "create", path, data, mode: "persistent" };
    const committed = await session.commit([create], bounds);
    if (committed.ok || committed.why !== "no-node") return committed.ok;
    await makeFolders(session, folder, bounds);
    return (await session.commit([create], bounds)).ok;
  }

  /** The refusal by the mark as it is now; an error where it would accept after all. */
  async function refusedNow(during: string, request: FenceRequest, bounds: Bounds) {
    const verdict = decide((await look(request.resource, bounds)).record, request);
    if (!verdict.accepted) return verdict;
    throw new UnavailableError(`cannot ${during}: the mark was moved meanwhile; nothing happened`, {
      backend: "zookeeper",
    });
  }

  return {
    kind: "zookeeper",
    work: "async",
    load: async (resource, call) =>
      bounded(
        parts,
        "read the mark",
        call,
        async (bounds) => (await look(resource, bounds)).record,
      ),
    arm: async (request, call) =>
      bounded(parts, `arm ${JSON.stringify(request.resource)}`, call, async (bounds) => {
        for (;;) {
          const seen = await look(request.resource, bounds);
          const verdict = decide(seen.record, request);
          if (!verdict.accepted) return verdict;
          if (await put(seen, request.resource, verdict.record, bounds)) return verdict;
        }
      }),

    /**
     * The mark is read before and after, each time with the leader's word that nothing newer was
     * missed. Where it did not change, all that was read in between was there while it stood.
     */
    read: async (request, work, call) => {
      const during = `read ${JSON.stringify(request.resource)}`;
      return bounded(parts, during, call, async (bounds): Promise<Ran<never>> => {
        const { session, node, record } = await look(request.resource, bounds);
        const verdict = decide(record, request);
        if (!verdict.accepted) return verdict;
        const notebook = new Notebook(session, client.chroot, bounds);
        const result = await runWork(work, notebook.tx).finally(() => notebook.end());
        if (!notebook.hasRead) return { accepted: true, result: result as never };
        const now = await session.node(pathOf(request.resource), bounds, { fresh: true });
        if (now !== undefined && now.stat.mzxid === node?.stat.mzxid) {
          return { accepted: true, result: result as never };
        }
        return refusedNow(during, request, bounds);
      });
    },

    write: async (request, work, call) => {
      const during = `write ${JSON.stringify(request.resource)}`;
      return bounded(parts, during, call, async (bounds): Promise<Ran<never>> => {
        const { session, node, record } = await look(request.resource, bounds);
        const verdict = decide(record, request);
        if (!verdict.accepted) return verdict;
        const notebook = new Notebook(session, client.chroot, bounds);
        const result = await runWork(work, notebook.tx).finally(() => notebook.end());
        throwIfAborted(call);
        const { changes } = notebook;
        const path = pathOf(request.resource);
        const { version } = node!.stat;
        const raise: Change = { kind: "set", path, data: toData(verdict.record), version };
        const committed = await session.commit([raise, ...changes], bounds);
        if (committed.ok) return { accepted: true, result: result as never };
        if (committed.place === 0) return refusedNow(during, request, bounds);
        throw refusedChange(during, changes, committed);
      });
    },

    rebase: async (request, call) =>
      bounded(parts, `rebase ${JSON.stringify(request.resource)}`, call, async (bounds) => {
        for (;;) {
          const seen = await look(request.resource, bounds);
          const after = rebase(seen.record, request);
          const isThere = after === seen.record;
          if (isThere || (await put(seen, request.resource, after, bounds))) {
            return { before: seen.record, after };
          }
        }
      }),
  };
}

async function makeFolders(session: FenceSession, path: string, bounds: Bounds): Promise<void> {
  const parts = path.slice(1).split("/");
  for (const [i] of parts.entries()) {
    const folder = `/${parts.slice(0, i + 1).join("/")}`;
    if ((await session.node(folder, bounds, { fresh: true })) !== undefined) continue;
    // Somebody else may be first: then it is there.
    const data = new Uint8Array();
    await session.commit([{ kind: "create", path: folder, data, mode: "persistent" }], bounds);
  }
}

function toData(record: MarkRecord): Uint8Array {
  return Buffer.from(JSON.stringify(recordToJson(record)), "utf8");
}

function parse({ data }: Node, resource: string): MarkRecord {
  try {
    return recordFromJson(JSON.parse(data.toString("utf8")));
  } catch (error) {
    throw new UnavailableError(`the mark of ${JSON.stringify(resource)} is damaged`, {
      backend: "zookeeper",
      retryable: false,
      cause: error,
    });
  }
}
