/** What a contender's node holds, for people and for other clients. */
import type { AcquireRequest, Held, HolderInfo } from "../../core/backend.js";
import type { Node } from "./client.js";
import type { Contender } from "./names.js";

/** The data of a contender's node. The holder is in the name, the token is the node's own. */
export function recordOf({ ttlMs, holderInfo = {} }: AcquireRequest): Uint8Array {
  return Buffer.from(JSON.stringify({ ttlMs, holderInfo }), "utf8");
}

/** The lease at the head of a line. Data that we did not write tells nothing. */
export function heldOf(head: Contender, node: Node, waiters: number): Held {
  const held: Held = { holder: head.holder, token: node.stat.czxid, waiters, why: "held" };
  try {
    const record = JSON.parse(node.data.toString("utf8")) as {
      readonly ttlMs?: unknown;
      readonly holderInfo?: unknown;
    } | null;
    const { ttlMs, holderInfo } = record ?? {};
    return {
      ...held,
      ...(typeof ttlMs === "number" ? { ttlMs } : {}),
      ...(isInfo(holderInfo) ? { holderInfo } : {}),
    };
  } catch {
    return held;
  }
}

function isInfo(value: unknown): value is HolderInfo {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
