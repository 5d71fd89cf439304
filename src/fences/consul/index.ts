/**
 * Fence over keys of Consul: the check of the mark and what the work writes are one transaction.
 *
 * A mark is a key whose value is JSON; every change of it compares its index. So does every key
 * that the work has read: if an unfenced path changed one meanwhile, nothing is written.
 *
 * Not promised: that several keys are read at one moment, each is read by itself. That code which
 * writes the same keys without a handle is stopped. A snapshot that is restored brings back older
 * marks with older data.
 */
import { LeaseLostError, UnavailableError } from "../../core/errors.js";
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
import type { Client, During, Entry, Op, TxnAnswer } from "./client.js";
import { checkKeyPrefix, DEFAULT_PREFIX, leaseKey, markKey } from "./keys.js";
import { Notebook, type ConsulReader, type ConsulTx } from "./transaction.js";

/** Options of a Consul fence. */
export interface ConsulFenceOptions<S extends OnStale = "reject"> extends FenceOptions<S> {
  /** Beginning of the keys of marks. Default: the path of the URL, else `tenure`. */
  readonly prefix?: string;
  /** Beginning of the keys of leases, for the held check. Default: as `prefix`. */
  readonly leasePrefix?: string;
}

/** A fence over keys of Consul. */
export interface ConsulFence<S extends OnStale = "reject"> extends Fence<
  ConsulTx,
  ConsulReader,
  S
> {
  /**
   * Held check: for a lease kept in the same Consul, one transaction says that the lease's record
   * still has this holder and token, and writes. It needs no arming and no mark. A lease that is
   * past its deadline passes until the servers have ended its session.
   *
   * Not promised: that keys written under a mark are safe from it: use one or the other for a key,
   * not both.
   *
   * @throws LeaseLostError when the record says otherwise; nothing was written.
   */
  held<R>(bearer: TokenBearer, work: (tx: ConsulTx) => R): Promise<Awaited<R>>;
}

/** What a fence is made of. */
export interface ConsulFenceParts {
  readonly client: Client;
  readonly runtime: FenceRuntime;
}

const BACKEND = "consul";
const CALL_MS = 10_000;

/** @throws TypeError or RangeError for wrong options. */
export function createConsulFence<S extends OnStale = "reject">(
  { client, runtime }: ConsulFenceParts,
  options: ConsulFenceOptions<S> = {},
): ConsulFence<S> {
  const prefix = checkKeyPrefix(options.prefix ?? DEFAULT_PREFIX, "prefix");
  const leasePrefix = checkKeyPrefix(options.leasePrefix ?? prefix, "leasePrefix");
  const fence = createFence<ConsulTx, ConsulReader, S>(
    consulStore(client, prefix),
    runtime,
    options,
  );
  return {
    arm: (bearer, resource) => fence.arm(bearer, resource),
    armAll: (bearer, resources) => fence.armAll(bearer, resources),
    resource: (name) => fence.resource(name),
    mark: (resource) => fence.mark(resource),
    rebase: (resource, to) => fence.rebase(resource, to),
    held: (bearer, work) => writeWhileHeld(client, leasePrefix, bearer, work),
  };
}

/** A look at the mark that refused: the work may hear of it, nobody else. */
class Refused extends Error {
  readonly verdict: Extract<Verdict, { readonly accepted: false }>;

  constructor(verdict: Refused["verdict"]) {
    super("the fence refused the step");
    this.verdict = verdict;
  }
}

interface Seen {
  readonly record: MarkRecord | null;
  /** 0: only if there is no such key. */
  readonly index: bigint;
}

/** The store alone, for those who put something between a handle and it. */
export function consulStore(
  client: Client,
  prefix: string = DEFAULT_PREFIX,
): FenceStore<ConsulTx, ConsulReader> {
  const keyOf = (resource: string): string => markKey(prefix, resource);

  async function look(resource: string, call: During): Promise<Seen> {
    const [entry] = await client.read([keyOf(resource)], call);
    return toSeen(entry, call.during);
  }

  /** The mark as the request leaves it, on the condition that it is still as it was seen. */
  const raise = (resource: string, record: MarkRecord, { index }: Seen): Op => {
    const value = JSON.stringify(recordToJson(record));
    return { verb: "cas", key: keyOf(resource), value, index };
  };

  /** Looks and decides until nobody has changed the mark in between. */
  async function settle(request: FenceRequest, call: FenceCall, more: Notebook): Promise<Verdict> {
    const { resource } = request;
    const during = doing(request);
    for (;;) {
      throwIfAborted(call);
      const seen = await look(resource, during);
      const verdict = decide(seen.record, request);
      if (!verdict.accepted) return verdict;
      throwIfAborted(call);
      const ops = [raise(resource, verdict.record, seen), ...more.ops];
      const answer = await client.txn(ops, during);
      if ("done" in answer) return verdict;
      if (!answer.refused.some(({ op }) => op === 0)) throw changed(answer, ops, during);
    }
  }

  /** Runs the work over a mark that accepts the request, as long as it does. */
  async function perform<R>(
    request: FenceRequest,
    work: Work<ConsulTx, R>,
    call: FenceCall,
    finish: (notebook: Notebook) => Promise<Verdict | undefined>,
  ): Promise<Ran<R>> {
    const during = doing(request);
    throwIfAborted(call);
    const check = (entry: Entry | undefined): void => {
      const verdict = decide(toSeen(entry, during.during).record, request);
      if (!verdict.accepted) throw new Refused(verdict);
    };
    const notebook = new Notebook(async (key) => {
      const [mark, entry] = await client.read([keyOf(request.resource), key], during);
      check(mark);
      return entry;
    });
    try {
      check((await client.read([keyOf(request.resource)], during))[0]);
      const result = await work(notebook.tx);
      notebook.end();
      const verdict = await finish(notebook);
      return verdict?.accepted === false ? verdict : { accepted: true, result };
    } catch (error) {
      if (error instanceof Refused) return error.verdict;
      throw error;
    } finally {
      notebook.end();
    }
  }

  return {
    kind: BACKEND,
    work: "async",
    load: async (resource) => (await look(resource, reading(resource))).record,
    arm: (request, call) => settle(request, call, new Notebook(async () => undefined)),
    read: (request, work, call) => perform(request, work, call, async () => undefined),
    write: (request, work, call) =>
      perform(request, work, call, (notebook) => settle(request, call, notebook)),
    rebase: async (request) => {
      const { resource } = request;
      for (;;) {
        const call = bounded(`rebase ${JSON.stringify(resource)}`);
        const seen = await look(resource, call);
        const after = rebase(seen.record, request);
        if (after === seen.record) return { before: seen.record, after };
        const answer = await client.txn([raise(resource, after, seen)], call);
        if ("done" in answer) return { before: seen.record, after };
      }
    },
  };
}

async function writeWhileHeld<R>(
  client: Client,
  prefix: string,
  bearer: TokenBearer,
  work: (tx: ConsulTx) => R,
): Promise<Awaited<R>> {
  const armer = checkBearer(bearer);
  const {
    scope: { name },
    holder,
    token,
  } = armer;
  const during = bounded("write while held");
  const key = leaseKey(prefix, name);
  const lost = (): LeaseLostError =>
    new LeaseLostError(`the store no longer has token ${token} of this holder`, {
      reason: "absent",
      lock: name,
      backend: BACKEND,
    });
  const check = (entry: Entry | undefined): string => {
    if (entry?.session === undefined || entry.index !== token) throw lost();
    if (holderOf(entry) !== holder) throw lost();
    return entry.session;
  };
  throwIfAborted(armer);
  const session = check((await client.read([key], during))[0]);
  const notebook = new Notebook(async (wanted) => {
    const [lease, entry] = await client.read([key, wanted], during);
    check(lease);
    return entry;
  });
  try {
    const result = await work(notebook.tx);
    notebook.end();
    throwIfAborted(armer);
    const ops: readonly Op[] = [
      { verb: "check-index", key, index: token },
      { verb: "check-session", key, session },
      ...notebook.ops,
    ];
    const answer = await client.txn(ops, during);
    if ("done" in answer) return result;
    throw answer.refused.some(({ op }) => op < 2) ? lost() : changed(answer, ops, during);
  } finally {
    notebook.end();
  }
}

function holderOf(entry: Entry): unknown {
  try {
    const json = JSON.parse(new TextDecoder().decode(entry.value)) as { holder?: unknown } | null;
    return json?.holder;
  } catch {
    return undefined;
  }
}

/** Something that the work had read has changed: an unfenced path, or another resource's. */
function changed(
  answer: Extract<TxnAnswer, { readonly refused: unknown }>,
  ops: readonly Op[],
  { during }: During,
): UnavailableError {
  const [first] = answer.refused;
  const op = first === undefined ? undefined : ops[first.op];
  const isRead = op?.verb === "check-index" || op?.verb === "check-not-exists";
  const what = isRead
    ? `${JSON.stringify(op.key)} has changed since the work read it`
    : (first?.what ?? "refused without a reason");
  return new UnavailableError(`cannot ${during}: ${what}`, { backend: BACKEND, retryable: isRead });
}

function toSeen(entry: Entry | undefined, during: string): Seen {
  if (entry === undefined) return { record: null, index: 0n };
  try {
    const json: unknown = JSON.parse(new TextDecoder().decode(entry.value));
    return { record: recordFromJson(json), index: entry.index };
  } catch (error) {
    const text = `cannot ${during}: ${JSON.stringify(entry.key)} holds something that is no mark`;
    throw new UnavailableError(text, { backend: BACKEND, retryable: false, cause: error });
  }
}

function doing({ op, resource }: FenceRequest): During {
  return bounded(`${op} ${JSON.stringify(resource)}`);
}

function reading(resource: string): During {
  return bounded(`read the mark of ${JSON.stringify(resource)}`);
}

/** A step is not taken back by an abort: only its answer would be lost. */
function bounded(during: string): During {
  return { signal: new AbortController().signal, timeoutMs: CALL_MS, during };
}
