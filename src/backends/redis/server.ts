/** What a server tells of itself, and whether it will do. */
import { GuaranteeError, UnavailableError } from "../../core/errors.js";
import type { Commands } from "./client.js";

/**
 * Oldest version on one server: its scripts may write after they have read the time (5.0), and
 * `SCAN` knows types (6.0); with room to spare.
 */
const OLDEST = [6, 2] as const;
/** Oldest version of a cluster's nodes where waiters stand in line: `SSUBSCRIBE` and `SPUBLISH`. */
const OLDEST_WITH_SHARDS = [7, 0] as const;

/** Fields of `INFO`. */
export type ServerInfo = ReadonlyMap<string, string>;

/** The answer to `INFO`, all sections or one. */
export async function readInfo(commands: Commands, section?: string): Promise<ServerInfo> {
  const text = await commands.send(section === undefined ? ["INFO"] : ["INFO", section]);
  const lines = String(text).split(/\r?\n/);
  return new Map(
    lines.flatMap((line) => {
      const colon = line.indexOf(":");
      return colon < 0 ? [] : [[line.slice(0, colon), line.slice(colon + 1)]];
    }),
  );
}

/** How a server is going to be used. */
export interface ServerUse {
  readonly isCluster: boolean;
  /** Whether waiters stand in line. */
  readonly fair: boolean;
}

/**
 * Checks what a server tells of itself.
 *
 * @returns warnings for whoever runs it.
 * @throws GuaranteeError for a version that is too old, or a cluster behind a client that knows no
 *   slots. UnavailableError for a replica.
 */
export function checkServer(info: ServerInfo, use: ServerUse): readonly string[] {
  const { isCluster } = use;
  const version = info.get("redis_version");
  if (version !== undefined) checkVersion(version, use);
  if (info.get("cluster_enabled") === "1" && !isCluster) {
    throw new GuaranteeError(
      "this server is part of a Redis Cluster, and the client knows no slots: pass a cluster " +
        "client",
      { backend: "redis" },
    );
  }
  if (info.get("role") === "slave") {
    throw new UnavailableError("this Redis server is a read-only replica; name its primary", {
      backend: "redis",
    });
  }
  const policy = info.get("maxmemory_policy");
  if (policy === undefined || policy === "noeviction") return [];
  return [
    `the server's maxmemory-policy is ${JSON.stringify(policy)}: when its memory is full ` +
      `(maxmemory ${info.get("maxmemory_human") ?? "unknown"}) it may drop leases that are held; ` +
      "set it to noeviction, or give leases a server of their own",
  ];
}

function checkVersion(version: string, { isCluster, fair }: ServerUse): void {
  let wanted: string | undefined;
  if (!isSince(OLDEST, version)) wanted = `${OLDEST.join(".")} or later is needed`;
  if (isCluster && fair && !isSince(OLDEST_WITH_SHARDS, version)) {
    wanted =
      `a cluster needs ${OLDEST_WITH_SHARDS.join(".")} or later for waiters in line ` +
      "(SSUBSCRIBE)";
    if (isSince(OLDEST, version)) wanted += ", or the option fair: false";
  }
  if (wanted === undefined) return;
  throw new GuaranteeError(`Redis ${version} is too old: ${wanted} (any Valkey will do)`, {
    backend: "redis",
  });
}

function isSince([major, minor]: readonly [number, number], version: string): boolean {
  const [ofMajor = 0, ofMinor = 0] = version.split(".").map(Number);
  return ofMajor > major || (ofMajor === major && ofMinor >= minor);
}
