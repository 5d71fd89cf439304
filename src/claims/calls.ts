/** The calls over a place where scripts run: a transaction of their own, or the caller's. */
import { checkName } from "../core/names.js";
import type { Answered, Run, Script, When } from "../sql/script.js";
import { checkBody, checkClaim, checkLease, checkPage, checkReason } from "./arguments.js";
import type { Claim, ClaimCalls, LeaseOption, ListOptions, OwnedKey } from "./contract.js";
import * as scripts from "./scripts.js";

/** What the calls need beside the place. */
export interface CallParts {
  readonly backend: string;
  readonly storeId: string;
  newHolder(): string;
}

/** The calls, at one place. */
export function callsOver<K extends When>(run: Run<K>, parts: CallParts): ClaimCalls<K> {
  const { backend, storeId } = parts;
  const claimant = (owner: unknown, options: unknown): scripts.Claimant => ({
    owner: checkName(owner, "owner"),
    leaseMs: checkLease(options),
    holder: parts.newHolder(),
    storeId,
  });
  const end = (claim: unknown, state: "done" | "failed", reason?: string) =>
    run(state === "done" ? "complete a claim" : "fail a claim", () =>
      scripts.end(checkClaim(claim), state, checkReason(reason), backend),
    );
  return {
    claim: ((key: string, owner: string, options?: LeaseOption) =>
      run<boolean | Claim | null>("claim a key", () => {
        const who = claimant(owner, options);
        const script = scripts.claim(checkName(key, "key"), who);
        return who.leaseMs === null ? isThere(script) : script;
      })) as ClaimCalls<K>["claim"],
    add: (key: string, body?: unknown): Answered<K, boolean> =>
      run("add a key", () => scripts.add(checkName(key, "key"), checkBody(body))),
    next: (owner: string, options?: LeaseOption): Answered<K, Claim | null> =>
      run("claim the next key", () => scripts.next(claimant(owner, options))),
    complete: (claim: Claim | OwnedKey): Answered<K, void> => end(claim, "done"),
    fail: (claim: Claim | OwnedKey, reason?: string): Answered<K, void> =>
      end(claim, "failed", reason),
    inspect: (key: string) => run("look at a claim", () => scripts.inspect(checkName(key, "key"))),
    list: (options?: ListOptions) => run("list claims", () => scripts.list(checkPage(options))),
  };
}

function* isThere(script: Script<Claim | null>): Script<boolean> {
  return (yield* script) !== null;
}
