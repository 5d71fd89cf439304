/** Candidates and observers of the real election in a simulated world. */
import { TenureError } from "../core/errors.js";
import type { Tenure } from "../core/tenure.js";
import type { FencingToken } from "../core/token.js";
import { election, type Election } from "../election/election.js";
import type { Leadership } from "../election/term.js";
import type { Client } from "./simulation.js";

/** How a candidate stands. All milliseconds. */
export interface CandidateOptions {
  /** Default `leader`. */
  readonly key?: string;
  /** Default 10,000. */
  readonly ttlMs?: number;
  /** Between two pieces of a leader's work. Default 500. */
  readonly stepMs?: number;
  /** How long it leads before it resigns, unless its term ends otherwise. Default: for ever. */
  readonly forMs?: number;
  /** Ends candidacy and work. */
  readonly signal?: AbortSignal;
}

/** The election of a name, as a client of the lab takes part in it. */
export function electionOf(client: Client, options: CandidateOptions = {}): Election {
  const { key = "leader", ttlMs = 10_000 } = options;
  // Only a store without tokens has another type, and `election` refuses it.
  return election(client.tenure as Tenure<FencingToken>, key, { ttl: ttlMs });
}

/** Stands, leads and stands again. Errors of Tenure end a candidacy; others are faults. */
export async function stand(client: Client, options: CandidateOptions = {}): Promise<void> {
  const { process } = client;
  const { stepMs = 500, signal } = options;
  const candidacy = electionOf(client, options);
  const isOver = (): boolean => signal?.aborted === true;
  const about = { key: options.key ?? "leader", client: process.name };
  while (!isOver()) {
    process.world.history.add({ kind: "wait", ...about });
    try {
      await candidacy.lead((term) => lead(client, term, options), {
        ...(signal === undefined ? {} : { signal }),
        stepDown: 10 * stepMs,
      });
    } catch (error) {
      process.world.history.add({ kind: "gave-up", ...about });
      if (isOver()) return;
      if (!(error instanceof TenureError)) process.world.fail(error);
      await process.sleep(stepMs);
    }
  }
}

/** One term: works in small pieces until it is revoked, or long enough. */
async function lead(client: Client, term: Leadership, options: CandidateOptions): Promise<void> {
  const { process } = client;
  const { history, nowMs } = process.world;
  const { stepMs = 500, forMs = Infinity } = options;
  const about = { key: term.name, client: process.name, term: String(term.term) };
  history.add({ kind: "elected", ...about });
  const end = (): void => {
    const reason: unknown = term.signal.reason;
    const why = reason instanceof Error ? reason.name : String(reason);
    history.add({ kind: "revoked", ...about, why });
  };
  term.signal.addEventListener("abort", end, { once: true });
  while (!term.signal.aborted && process.world.nowMs - nowMs < forMs) {
    history.add({ kind: "led", ...about });
    await process.sleep(stepMs);
  }
  if (!term.signal.aborted) await term.resign();
}

/** Looks on for ever, or until the signal aborts. */
export async function observe(client: Client, options: CandidateOptions = {}): Promise<void> {
  const { process } = client;
  const { key = "leader", signal } = options;
  const watched = electionOf(client, options).observe(signal === undefined ? {} : { signal });
  try {
    for await (const leader of watched) {
      const term = leader === null ? {} : { term: String(leader.term) };
      process.world.history.add({ kind: "observed", key, client: process.name, ...term });
    }
  } catch (error) {
    if (!(error instanceof TenureError)) process.world.fail(error);
  }
}
