import type {
  AcquireRequest,
  Call,
  Grant,
  Held,
  Released,
  ReleaseRequest,
  Renewed,
} from "../../core/backend.js";
import type { Timer } from "../../core/clock.js";
import type { TenureError } from "../../core/errors.js";
import type { Runtime } from "../../core/runtime.js";
import type { FencingToken } from "../../core/token.js";
import { ScriptError, type Batch } from "./batch.js";
import type { Commands, Reply } from "./client.js";
import { slotOf, type Keys } from "./keys.js";
import type { LineScripts } from "./line-scripts.js";
import { elements, infoText, isForeign, toHeld, toToken } from "./replies.js";
import { INSPECT, RENEW } from "./scripts.js";
import type { Epochs } from "./epochs.js";

/** Grants whose release may be a plain `HDEL`; the oldest are forgotten and cost one call more. */
const MOST_FRESH = 10_000;
/** How much of a call's time is left to nodes of a cluster that are slower than others. */
export const STRAGGLER_SHARE = 0.25;

/** What the leases of a store work with. */
export interface LeaseParts {
  readonly commands: Commands;
  /** The connection that renewals have for themselves. */
  readonly renewals: Commands;
  readonly batch: Batch;
  readonly keys: Keys;
  readonly line: LineScripts;
  readonly epochs: Epochs;
  readonly runtime: Pick<Runtime, "clock" | "timers">;
  /** What a client library threw, as one of our errors. */
  readonly explain: (error: unknown, during: string, lock: string) => TenureError;
}

type Answer = { readonly grant: Grant } | { readonly held: Held };

/** Grants, renewals and releases. */
export class Leases {
  readonly #parts: LeaseParts;
  /**
   * Until when a grant that nobody waited for is surely live, on our clock, by its holder. A plain
   * `HDEL` does not ask whether the time is over, so it is kept to the first half of the TTL; it
   * finds nothing where a renewal, of whatever process, has let the lease end sooner. The key is
   * the id as it came: with a text made for each grant, this was a tenth of a serial pair.
   */
  readonly #fresh = new Map<string, number>();

  constructor(parts: LeaseParts) {
    this.#parts = parts;
  }

  /** No function in between, and one promise: this is the path of every grant. */
  acquire(request: AcquireRequest): Promise<Answer> {
    const { batch, keys, epochs, runtime } = this.#parts;
    const { name, holder, ttlMs } = request;
    const key = keys.lease(name);
    const epoch = epochs.of(key);
    const sentMs = runtime.clock.monotonicMs();
    const info = infoText(request.holderInfo);
    return new Promise((resolve, reject) => {
      batch.send({
        kind: "acquire", key, subject: holder, ttlMs, info,
        answer: (reply) => {
          if (typeof reply === "string") {
            this.#remember(holder, sentMs + ttlMs / 2);
            if (typeof epoch === "object") {
              resolve(epoch.then((told) => ({ grant: grantOf(request, toToken(reply), told) })));
            } else resolve({ grant: grantOf(request, toToken(reply), epoch) });
          } else if (Number(elements(reply)[0]) === 2) {
            // Somebody may be waiting: the line decides.
            resolve(this.#acquireInLine(request, [holder, String(ttlMs), info]));
          } else resolve({ held: toHeld(elements(reply).slice(1)) });
        },
        fail: (error) => reject(this.#parts.explain(error, "acquire a lease", name)),
      });
    });
  }

  /** On a cluster a node that does not answer holds up no other: its leases are `unknown`. */
  renew(grants: readonly Grant[], call: Call): Promise<readonly Renewed[]> {
    if (!this.#parts.renewals.isCluster || grants.length < 2) return this.#renewSome(grants);
    return this.#renewBySlot(grants, call);
  }

  async #renewBySlot(grants: readonly Grant[], call: Call): Promise<readonly Renewed[]> {
    const { explain, runtime } = this.#parts;
    const outcomes: Renewed[] = grants.map(() => "unknown");
    let timer: Timer | undefined;
    const late = new Promise<void>((resolve) => {
      timer = runtime.timers.after(call.timeoutMs * STRAGGLER_SHARE, resolve);
    });
    const asking = this.#bySlot<Grant, Renewed>(grants, outcomes, async (some, isAll) => {
      try {
        return await this.#renewSome(some);
      } catch (error) {
        // What one node does not answer takes nothing from what the others did.
        if (isAll) throw error;
        const outcome = outcomeOf(explain(error, "renew leases", some[0]!.name));
        return some.map(() => outcome);
      }
    });
    asking.catch(() => undefined);
    try {
      await Promise.race([asking, late]);
    } finally {
      timer?.cancel();
    }
    return outcomes;
  }

  async #renewSome(some: readonly Grant[]): Promise<readonly Renewed[]> {
    const { keys, renewals, explain } = this.#parts;
    const names = some.map(({ name }) => keys.lease(name));
    const args = some.flatMap(({ holder, token, ttlMs }) => [
      holder,
      String(token),
      String(ttlMs),
    ]);
    const answers = elements(await renewals.evaluate(RENEW, names, args));
    // What hits all alike, such as a full memory, is worth an error of its own.
    const failures = answers.map(failureOf);
    if (failures[0] !== undefined && failures.every((text) => text === failures[0])) {
      throw new ScriptError(failures[0]);
    }
    return some.map((grant, i) => {
      const failure = failures[i];
      if (failure === undefined) return renewed(answers[i]);
      return outcomeOf(explain(new ScriptError(failure), "renew leases", grant.name));
    });
  }

  release({ name, holder, token }: ReleaseRequest): Promise<Released> {
    if (token === undefined || !this.#isFresh(holder)) {
      return this.endInLine(name, holder, token, "any");
    }
    const { batch, keys } = this.#parts;
    const subject = `h${token}:${holder}`;
    return new Promise((resolve, reject) => {
      batch.send({
        kind: "release", key: keys.lease(name), subject, ttlMs: 0, info: "",
        answer: (reply) => {
          if (Number(reply) === 1) resolve("released");
          else resolve(this.endInLine(name, holder, token, "any"));
        },
        fail: (error) => reject(this.#parts.explain(error, "release a lease", name)),
      });
    });
  }

  /** Gives up a lease, an offer or a place; with `offer` no lease that was confirmed. */
  async endInLine(
    name: string,
    holder: string,
    token: FencingToken | undefined,
    what: "any" | "offer",
  ): Promise<Released> {
    const { commands, keys, line, explain } = this.#parts;
    const args = [holder, String(token ?? ""), what];
    try {
      const reply = await commands.evaluate(line.release, keys.ofQueue(name), args);
      return Number(reply) === 1 ? "released" : "not-held";
    } catch (error) {
      throw explain(error, "release a lease", name);
    }
  }

  async break(name: string, token: bigint): Promise<boolean> {
    const { commands, keys, line } = this.#parts;
    const reply = await commands.evaluate(line.break, keys.ofQueue(name), [String(token)]);
    return Number(reply) === 1;
  }

  /** The live lease of each name, or null; a stranger's key is passed over where that is wished. */
  async inspect(
    names: readonly string[],
    passStrangers = false,
  ): Promise<readonly (Held | null)[]> {
    const { commands, keys } = this.#parts;
    const asked = names.map((name) => ({ name }));
    return this.#bySlot<{ readonly name: string }, Held | null>(asked, [], async (some) => {
      const both = some.flatMap(({ name }) => keys.ofQueue(name).slice(0, 2));
      const reply = await commands.evaluate(INSPECT, both, []);
      return some.map((_, i) => {
        const answer = elements(elements(reply)[i]);
        if (Number(answer[0]) !== -1) return answer.length === 0 ? null : toHeld(answer);
        if (passStrangers && isForeign(String(answer[1]))) return null;
        throw new ScriptError(String(answer[1]));
      });
    });
  }

  async #acquireInLine(request: AcquireRequest, args: readonly string[]): Promise<Answer> {
    const { commands, keys, line, epochs, explain } = this.#parts;
    const epoch = epochs.of(keys.lease(request.name));
    try {
      const reply = await commands.evaluate(line.acquire, keys.ofQueue(request.name), args);
      if (Array.isArray(reply)) return { held: toHeld(elements(reply).slice(1)) };
      return { grant: grantOf(request, toToken(reply), await epoch) };
    } catch (error) {
      throw explain(error, "acquire a lease", request.name);
    }
  }

  /** One request for all; on a cluster one for each slot, at the same time. Fills in `answers`. */
  async #bySlot<A extends { readonly name: string }, R>(
    all: readonly A[],
    answers: R[],
    ask: (some: readonly A[], isAll: boolean) => Promise<readonly R[]>,
  ): Promise<readonly R[]> {
    const { commands, keys } = this.#parts;
    if (!commands.isCluster || all.length < 2) {
      for (const [i, answer] of (await ask(all, true)).entries()) answers[i] = answer;
      return answers;
    }
    const groups = new Map<number, number[]>();
    for (const [i, { name }] of all.entries()) {
      const slot = slotOf(keys.lease(name));
      groups.set(slot, [...(groups.get(slot) ?? []), i]);
    }
    const asking = [...groups.values()].map(async (places) => {
      const some = await ask(places.map((i) => all[i]!), false);
      for (const [j, i] of places.entries()) answers[i] = some[j]!;
    });
    await Promise.all(asking);
    return answers;
  }

  #remember(holder: string, untilMs: number): void {
    this.#fresh.set(holder, untilMs);
    if (this.#fresh.size <= MOST_FRESH) return;
    for (const oldest of this.#fresh.keys()) {
      this.#fresh.delete(oldest);
      return;
    }
  }

  #isFresh(holder: string): boolean {
    const untilMs = this.#fresh.get(holder);
    if (untilMs === undefined) return false;
    this.#fresh.delete(holder);
    return this.#parts.runtime.clock.monotonicMs() < untilMs;
  }
}

/** A grant of this request. */
export function grantOf(
  { name, holder, ttlMs }: AcquireRequest,
  token: FencingToken,
  storeEpoch: string | undefined,
): Grant {
  if (storeEpoch === undefined) return { name, holder, token, ttlMs };
  return { name, holder, token, ttlMs, storeEpoch };
}

function renewed(reply: Reply | undefined): Renewed {
  const answer = elements(reply);
  if (answer.length > 0) return { lost: isFailure(answer) ? "absent" : toHeld(answer) };
  return Number(reply) === 1 ? "renewed" : { lost: "absent" };
}

function isFailure(answer: readonly Reply[]): boolean {
  return Number(answer[0]) === -1;
}

/** What kept one renewal of a script from being done. */
function failureOf(reply: Reply): string | undefined {
  const answer = elements(reply);
  // Where a stranger has overwritten the record there is no lease any more.
  return isFailure(answer) && !isForeign(String(answer[1])) ? String(answer[1]) : undefined;
}

function outcomeOf({ family }: TenureError): "unavailable" | "unknown" {
  return family === "unavailable" ? "unavailable" : "unknown";
}
