/** What is found out, and made, when the backend is opened. */
import type { Call } from "../../core/backend.js";
import { UnavailableError } from "../../core/errors.js";
import { checkName } from "../../core/names.js";
import type { Random } from "../../core/random.js";
import type { Faults, ZkClient, ZkSession } from "./client.js";

/** What is known of a store once it is open. */
export interface Facts {
  readonly storeId: string;
  /** Members that vote. 1 for a server alone, 0 where the server does not tell. */
  readonly voters: number;
  /** Bounds that the server keeps a session's time-out within, milliseconds. */
  readonly minSessionMs: number;
  readonly maxSessionMs: number;
}

/** Node that servers keep themselves: the members of the ensemble, or nothing for one alone. */
const MEMBERS = "/zookeeper/config";
const LONGEST_MS = 2 ** 31 - 1;

/**
 * Makes the nodes of a store where they are missing, and asks for the bounds: a session with the
 * least time-out that can be asked for is granted the shortest, one with the most the longest.
 */
export async function prepareStore(
  client: ZkClient,
  faults: Faults,
  random: Random,
  base: string,
  call: Call,
): Promise<Facts> {
  const longest = await client.open(LONGEST_MS, call);
  try {
    // Asked on the session that is patient with a slow server.
    const storeId = await provideStore(longest, random, base, call);
    const voters = await countVoters(longest, faults, call);
    const shortest = await client.open(1, call);
    await shortest.close();
    return {
      storeId,
      voters,
      minSessionMs: shortest.timeoutMs,
      maxSessionMs: longest.timeoutMs,
    };
  } finally {
    await longest.close();
  }
}

/** The store's id: whoever comes first makes it. */
async function provideStore(
  session: ZkSession,
  random: Random,
  base: string,
  call: Call,
): Promise<string> {
  const path = `${base}/store`;
  const known = await session.node(path, call, { fresh: true });
  if (known !== undefined) return readId(known.data, path);
  const parts = base.slice(1).split("/");
  const folders = parts.map((_, i) => `/${parts.slice(0, i + 1).join("/")}`);
  for (const folder of [...folders, `${base}/leases`]) await make(session, folder, "", call);
  await make(session, path, JSON.stringify({ id: random.id() }), call);
  const made = await session.node(path, call, { fresh: true });
  return readId(made?.data ?? Buffer.alloc(0), path);
}

async function make(session: ZkSession, path: string, data: string, call: Call): Promise<void> {
  if ((await session.node(path, call, { fresh: true })) !== undefined) return;
  const bytes = Buffer.from(data, "utf8");
  // Another process may be first: then it is there.
  await session.commit([{ kind: "create", path, data: bytes, mode: "persistent" }], call);
}

function readId(data: Buffer, path: string): string {
  try {
    return checkName((JSON.parse(data.toString("utf8")) as { readonly id?: unknown }).id, "id");
  } catch (error) {
    throw new UnavailableError(`the node ${path} holds something that is not Tenure's`, {
      backend: "zookeeper",
      retryable: false,
      cause: error,
    });
  }
}

/** One voter needs no others: then no loss of a minority can be survived. */
async function countVoters(session: ZkSession, faults: Faults, call: Call): Promise<number> {
  try {
    const node = await session.node(MEMBERS, call);
    if (node === undefined) return 0;
    const text = node.data.toString("utf8");
    const members = text.match(/^server\.\d+=.*$/gm) ?? [];
    return members.filter((line) => !/:observer\b/.test(line)).length || 1;
  } catch (error) {
    if (faults.isForbidden(error)) return 0;
    throw error;
  }
}
