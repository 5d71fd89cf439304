/** What is found out when the store is opened. */
import type { Call } from "../../core/backend.js";
import { GuaranteeError } from "../../core/errors.js";
import type { EtcdGateway } from "./client.js";
import type { Keys } from "./records.js";
import { fromBase64, isAbsent, range, toBase64, txnResult } from "./requests.js";

const OLDEST: readonly [number, number] = [3, 4];
/** Members of which one can be lost. */
const LEAST_FOR_CONSENSUS = 3;

/** The store as it was found. */
export interface Found {
  readonly storeId: string;
  readonly tokens: "consensus" | "durable";
  readonly minTtlMs: number;
}

/**
 * Checks the version, finds the store's id or makes one, counts the voting members, and asks for
 * the shortest TTL.
 *
 * @throws GuaranteeError for etcd before 3.4. UnavailableError when it cannot be opened.
 */
export async function openStore(
  gateway: EtcdGateway,
  keys: Keys,
  call: Pick<Call, "timeoutMs">,
  newId: () => string,
): Promise<Found> {
  const ask = (path: string, body: object, isRead: boolean): Promise<object> =>
    gateway
      // Of several steps none may use up the time of all: its error tells what is wrong.
      .ask(path, body, { during: "open the store", isRead, timeoutMs: call.timeoutMs / 2 })
      .then((reply) => reply.body);

  const status = (await ask("maintenance/status", {}, true)) as Status;
  checkVersion(status.version);
  const own = await storedId(ask, keys, newId);
  const members = (await ask("cluster/member/list", {}, true)) as Members;
  const voters = (members.members ?? []).filter(({ isLearner }) => isLearner !== true).length;
  // The server raises what is too short for its elections.
  const shortest = (await ask("lease/grant", { TTL: "1" }, false)) as Lease;
  await ask("lease/revoke", { ID: shortest.ID }, false);
  return {
    // Clusters that were set up alike have the same id of their own.
    storeId: `${BigInt(status.header.cluster_id).toString(16)}-${own}`,
    tokens: voters >= LEAST_FOR_CONSENSUS ? "consensus" : "durable",
    minTtlMs: Number(shortest.TTL) * 1_000,
  };
}

interface Status {
  readonly header: { readonly cluster_id: string };
  readonly version: string;
}

interface Members {
  readonly members?: readonly { readonly isLearner?: boolean }[];
}

interface Lease {
  readonly ID: string;
  readonly TTL: string;
}

type Ask = (path: string, body: object, isRead: boolean) => Promise<object>;

function checkVersion(version: string): void {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  if (major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1])) return;
  throw new GuaranteeError(`etcd ${version} is too old: ${OLDEST.join(".")} or later is needed`, {
    backend: "etcd",
  });
}

async function storedId(ask: Ask, keys: Keys, newId: () => string): Promise<string> {
  const key = keys.store;
  const read = txnResult(await ask("kv/txn", { success: [range({ key })] }, true));
  const known = read.found[0]?.kvs[0]?.value;
  if (known !== undefined) return fromBase64(known);
  const value = newId();
  const made = txnResult(
    await ask(
      "kv/txn",
      {
        compare: [isAbsent({ key })],
        success: [{ request_put: { key, value: toBase64(value) } }],
        failure: [range({ key })],
      },
      false,
    ),
  );
  return made.succeeded ? value : fromBase64(made.found[0]?.kvs[0]?.value ?? "");
}
