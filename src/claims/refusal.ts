import { SupersededError } from "../core/errors.js";
import type { Meant } from "./arguments.js";
import type { ClaimState } from "./contract.js";

/** What is told of the present claim. */
export interface Present {
  readonly state: ClaimState;
  readonly owner: string | null;
  readonly holder: string | null;
  readonly token: bigint | null;
}

/** Whether a claim is the present one, has ended in this way already, or is neither. */
export function standing(
  meant: Meant,
  present: Present,
  end: ClaimState,
  hasLease: boolean,
): "present" | "ended" | "other" {
  const isSame =
    meant.token === undefined
      ? !hasLease && present.owner === meant.owner
      : present.token === meant.token && present.holder === meant.holder;
  if (!isSame) return "other";
  if (present.state === "running") return "present";
  return present.state === end ? "ended" : "other";
}

/** The error for a claim that is not the present one. */
export function superseded(meant: Meant, present: Present | null, backend: string): Error {
  const { key, owner, token } = meant;
  const which = token === undefined ? `of ${owner}` : `of ${owner} with token ${token}`;
  const context = { resource: key, backend, ...(token === undefined ? {} : { token }) };
  const told = (why: string): string => `the claim ${which} on ${JSON.stringify(key)} ${why}`;
  if (present === null || present.token === null || present.holder === null) {
    const why = present === null ? "is not known" : "was never made: the key is pending";
    return new SupersededError(told(why), context);
  }
  const by = `${present.owner} with token ${present.token}`;
  const why = present.state === "running" ? `is not the present one: ${by} has it` : "";
  const ended = `has ended: ${by} has left it ${present.state}`;
  return new SupersededError(told(why === "" ? ended : why), {
    ...context,
    mark: { token: present.token, holder: present.holder },
  });
}
