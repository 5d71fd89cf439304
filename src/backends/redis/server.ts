/** What a server tells of itself, and whether it will do. */
import { GuaranteeError, UnavailableError } from "../../core/errors.js";
import type { Commands } from "./client.js";

/** Oldest version whose scripts may write after they have read the time, with room to spare. */
const OLDEST = [6, 2] as const;

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

/**
 * Checks what a server tells of itself.
 *
 * @returns warnings for whoever runs it.
 * @throws GuaranteeError for a version that is too old, or a cluster behind a client that knows no
 *   slots. UnavailableError for a replica.
 */
export function checkServer(info: ServerInfo, isCluster: boolean): readonly string[] {
  const version = info.get("redis_version");
  if (version !== undefined) checkVersion(version);
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

function checkVersion(version: string): void {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  if (major > OLDEST[0] || (major === OLDEST[0] && minor >= OLDEST[1])) return;
  throw new GuaranteeError(
    `Redis ${version} is too old: ${OLDEST.join(".")} or later is needed (any Valkey will do)`,
    { backend: "redis" },
  );
}
