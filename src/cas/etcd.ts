/**
 * Compare-and-swap on etcd: the version is the revision of the key's last write, which the cluster
 * compares in the transaction that writes.
 *
 * The client may send a request twice. So each write has an id, which is kept with the value: a
 * copy that comes second finds the key changed, and sees by the id that it was the first that did
 * it. If another has written over that already, the key's history tells: what was written first
 * after the version that was expected.
 */
import { OutcomeUnknownError } from "../core/errors.js";
import type { Random } from "../core/random.js";
import type { Cas } from "./contract.js";
import { casOver, type UpdateRuntime } from "./updating.js";

/** What is needed of a client. */
export interface EtcdCasParts {
  readonly runtime: UpdateRuntime & { readonly random: Random };
  readonly gateway: {
    ask(
      path: string,
      body: object,
      options: { readonly during: string; readonly isRead?: boolean; readonly timeoutMs: number },
    ): Promise<{ readonly body: object; readonly isLoose: boolean }>;
    watch(create: object, sink: { message(result: object): void; ended(): void }): () => void;
  };
  readonly prefix: string;
  readonly timeoutMs: number;
  readonly maxBytes: number;
  close(): void;
}

interface Kv {
  readonly mod_revision: string;
  readonly create_revision: string;
  readonly value?: string;
}

/** A value as it is kept. */
interface Kept {
  /** Id of the write. */
  readonly by: string;
  readonly value: unknown;
}

const BACKEND = "etcd";
const toBase64 = (text: string): string => Buffer.from(text).toString("base64");

/** Values through an open client. */
export function etcdCas(parts: EtcdCasParts): Cas {
  const { runtime, gateway, prefix, maxBytes, timeoutMs } = parts;
  return casOver({
    backend: BACKEND,
    maxBytes,
    runtime,
    read: async (name) => {
      const options = { during: "read a value", isRead: true, timeoutMs };
      const { body } = await gateway.ask("kv/range", { key: toBase64(prefix + name) }, options);
      const { kvs = [] } = body as { readonly kvs?: readonly Kv[] };
      const [kv] = kvs;
      if (kv === undefined) return null;
      return { value: JSON.stringify(keptIn(kv).value), version: BigInt(kv.mod_revision) };
    },
    write: async (name, text, expected) => {
      const key = toBase64(prefix + name);
      const by = runtime.random.id();
      const value = toBase64(`{"by":${JSON.stringify(by)},"value":${text}}`);
      const during = "write a value";
      const { body, isLoose } = await gateway.ask(
        "kv/txn",
        {
          compare: [{ key, target: "MOD", result: "EQUAL", mod_revision: String(expected ?? 0n) }],
          success: [{ request_put: { key, value } }],
          failure: [{ request_range: { key } }],
        },
        { during, timeoutMs },
      );
      const {
        succeeded,
        header,
        responses = [],
      } = body as {
        readonly succeeded?: boolean;
        readonly header: { readonly revision: string };
        readonly responses?: readonly {
          readonly response_range?: { readonly kvs?: readonly Kv[] };
        }[];
      };
      if (succeeded === true) return { isWritten: true, version: BigInt(header.revision) };
      const kv = responses[0]?.response_range?.kvs?.[0];
      const version = kv === undefined ? null : BigInt(kv.mod_revision);
      if (kv !== undefined && keptIn(kv).by === by) return { isWritten: true, version: version! };
      if (!isLoose) return { isWritten: false, version };
      const from = expected === null ? kv?.create_revision : String(expected + 1n);
      const first = from === undefined ? undefined : await firstWrite(parts, key, from);
      if (first === undefined) {
        throw new OutcomeUnknownError(
          `cannot ${during}: it was sent twice, and may have happened`,
          {
            backend: BACKEND,
          },
        );
      }
      if (keptIn(first).by !== by) return { isWritten: false, version };
      return { isWritten: true, version: BigInt(first.mod_revision) };
    },
    close: async () => parts.close(),
  });
}

/** The first write of a key from a revision on; undefined where that is not told in time. */
function firstWrite(
  { gateway, runtime, timeoutMs }: EtcdCasParts,
  key: string,
  from: string,
): Promise<Kv | undefined> {
  return new Promise((resolve) => {
    const tell = (kv: Kv | undefined): void => {
      timer.cancel();
      resolve(kv);
      stop();
    };
    const timer = runtime.timers.after(timeoutMs, () => tell(undefined));
    const stop = gateway.watch(
      { key, start_revision: from },
      {
        message: (result) => {
          const { events = [] } = result as { readonly events?: readonly { readonly kv: Kv }[] };
          const [event] = events;
          if (event !== undefined) tell(event.kv);
        },
        ended: () => tell(undefined),
      },
    );
  });
}

function keptIn({ value = "" }: Kv): Kept {
  const text = Buffer.from(value, "base64").toString();
  let kept: unknown;
  try {
    kept = JSON.parse(text);
  } catch {
    kept = null;
  }
  const isKept = typeof kept === "object" && kept !== null && "by" in kept && "value" in kept;
  // Something else writes under our keys: it is not ours, and not to be written over unseen.
  if (!isKept) throw new TypeError("a key of etcd has a value that compare-and-swap did not write");
  return kept as Kept;
}
