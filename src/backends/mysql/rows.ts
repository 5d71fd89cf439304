/** Rows of the statements, as the core wants them. */
import type { AcquireRequest, Grant, Held, HolderInfo } from "../../core/backend.js";
import { parseToken } from "../../core/token.js";
import { fromHex } from "../../dialects/mysql.js";
import type { Row } from "../sql-client.js";

/** The grant that `acquire` answered. */
export function grantOf({ name, holder, ttlMs }: AcquireRequest, row: Row): Grant {
  return {
    name,
    holder,
    token: parseToken(row["token"] as string),
    ttlMs,
    storeEpoch: String(row["epoch"]),
  };
}

/** What a live row says to others. */
export function heldOf(row: Row): Held {
  const ttlMs = Number(row["ttl_ms"]);
  const { info } = row;
  return {
    holder: fromHex(row["holder"]),
    token: BigInt(row["token"] as string),
    ttlMs,
    // Rounded up, it could show a millisecond more than the TTL.
    leftMs: Math.min(ttlMs, Number(row["left_ms"])),
    why: "held",
    ...(typeof info === "string" ? { holderInfo: JSON.parse(fromHex(info)) as HolderInfo } : {}),
  };
}
