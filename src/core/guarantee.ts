/** What a caller demands of a store, checked before anything else is done. */
import type { Backend } from "./backend.js";
import { ArgumentTypeError, GuaranteeError } from "./errors.js";
import { isAtLeast } from "./manifest.js";
import type { TokenStrength } from "./manifest.js";
import { checkWord } from "./options.js";
import type { FencingToken } from "./token.js";

/**
 * What the leases are for: `correctness` (two holders would do damage: tokens are needed) or
 * `efficiency` (a double run wastes work).
 */
export type Purpose = "correctness" | "efficiency";

/** The weakest store that is accepted. */
export type Requirement = "consensus" | "durable";

/** What a store needs for its tokens to be as strong. */
const NEEDED: Readonly<Record<Requirement, string>> = {
  consensus: "three voting members or more of etcd, ZooKeeper or Consul, or the service DynamoDB",
  durable:
    "a store that loses nothing it has committed, such as SQLite, or PostgreSQL and MySQL with " +
    "their default settings",
};

/** What a caller demands, checked by itself. @throws TypeError for a word of neither kind. */
export function checkDemands(
  purpose: unknown,
  require: unknown,
): { readonly purpose: Purpose; readonly require: Requirement | undefined } {
  const words: readonly Requirement[] = ["consensus", "durable"];
  return {
    purpose: checkWord(purpose ?? "correctness", "purpose", ["correctness", "efficiency"]),
    require: require === undefined ? undefined : checkWord(require, "require", words),
  };
}

/**
 * The checked purpose.
 *
 * @throws GuaranteeError when the backend's manifest promises less than is asked for.
 */
export function checkGuarantee(
  backend: Backend<FencingToken | undefined>,
  purpose: unknown,
  require: unknown,
): Purpose {
  const demands = checkDemands(purpose, require);
  checkTokens(backend.manifest.backend, backend.manifest.tokens, demands);
  return demands.purpose;
}

/** @throws GuaranteeError when tokens of this strength are less than what is demanded. */
export function checkTokens(
  backend: string,
  tokens: TokenStrength,
  { purpose, require }: ReturnType<typeof checkDemands>,
): void {
  if (purpose === "correctness" && tokens === "none") {
    throw new GuaranteeError(
      `${backend} hands out no fencing tokens, so two holders cannot be told apart at the ` +
        `resource; say purpose: "efficiency" if a double run only wastes work, or use ` +
        `another store`,
      { backend },
    );
  }
  if (require !== undefined && !isAtLeast(tokens, require)) {
    throw new GuaranteeError(
      `require: "${require}" was asked for, and the tokens of this ${backend} are "${tokens}"; ` +
        `${require} takes ${NEEDED[require]}`,
      { backend },
    );
  }
}

/** Refuses a backend whose parts contradict its manifest. @throws TypeError naming the part. */
export function checkBackend(backend: unknown): void {
  const candidate = backend as Partial<Backend<FencingToken | undefined>> | null;
  const manifest = candidate?.manifest;
  if (typeof candidate !== "object" || candidate === null || typeof manifest !== "object") {
    throw new ArgumentTypeError("backend", backend, "a store URL or a backend");
  }
  for (const method of [
    "acquire",
    "renew",
    "release",
    "break",
    "inspect",
    "list",
    "close",
  ] as const) {
    if (typeof candidate[method] !== "function") {
      throw new ArgumentTypeError(`backend.${method}`, candidate[method], "a function");
    }
  }
  if (candidate.waiting?.kind !== manifest.waiting) {
    throw new ArgumentTypeError(
      "backend.waiting.kind",
      candidate.waiting?.kind,
      `"${manifest.waiting}", as its manifest says`,
    );
  }
  if ((manifest.ttlScope === "session") !== (candidate.sessions !== undefined)) {
    throw new ArgumentTypeError(
      "backend.sessions",
      candidate.sessions,
      `in step with ttlScope "${manifest.ttlScope}"`,
    );
  }
  if (manifest.heldCheck && typeof candidate.proof !== "function") {
    throw new ArgumentTypeError("backend.proof", candidate.proof, "a function, as heldCheck says");
  }
}
