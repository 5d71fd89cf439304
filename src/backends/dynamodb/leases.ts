/**
 * Leases as items that are written on conditions.
 *
 * Whether a holder lives, only its contenders can tell: one that has seen a record unchanged for
 * its whole TTL takes it over on the condition that it is still unchanged, so that a renewal in
 * between wins. A list is a look, too: who lists again and again has watched what is listed.
 *
 * A request may be carried out although its answer says otherwise: the SDK sends it again, and the
 * copy fails on what the first has written. So a refused write looks who is there: a record of this
 * very holder is its grant, a record that this very call has freed is a release.
 */
import type { AcquireRequest, Call, Grant, Held, Released, Renewed } from "../../core/backend.js";
import type { Clock, Timer, Timers } from "../../core/clock.js";
import { OutcomeUnknownError, UnavailableError } from "../../core/errors.js";
import { Observed } from "../../core/observed.js";
import type { Random } from "../../core/random.js";
import { toToken } from "../../core/token.js";
import type { Client, During } from "./client.js";
import type { Item, Written } from "../../dialects/dynamodb.js";
import { formatVersion, KEY, keyOf, keyText, NAMES, ownValues } from "./record.js";
import { readRecord, toHeld, versionValues, writeSighting, type LeaseRecord } from "./record.js";
import { MOST_NOTES, type Sightings } from "./sightings.js";
import * as statements from "./statements.js";
import { updateOf, type Statement } from "./statements.js";
import type { Store } from "./store.js";

/** A name may change hands between our look and our write; each try is one more such change. */
const TRIES = 5;

/** Part of a call's time after which a renewal is told as unknown. */
const RENEWALS_WITHIN = 0.8;

type Answer = { readonly grant: Grant } | { readonly held: Held };

/** A grant as a caller may bring it. */
type Brought = Pick<Grant, "name" | "holder"> & { readonly token?: bigint };

/** What calls about leases are made with. */
export interface LeaseParts {
  readonly client: Client;
  readonly renewals: Client;
  readonly table: string;
  readonly store: Store;
  readonly sightings: Sightings;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly random: Random;
  /** Bound on the difference of all wall clocks; undefined where none is compared. */
  readonly maxSkewMs: number | undefined;
}

/** Calls about leases. */
export class Leases {
  readonly #parts: LeaseParts;
  /** What was listed, and since when it is unchanged. */
  readonly #listed: Observed;

  constructor(parts: LeaseParts) {
    this.#parts = parts;
    this.#listed = new Observed(parts.clock);
  }

  async acquire(request: AcquireRequest, { signal }: Call): Promise<Answer> {
    const { name, holder } = request;
    const during = { signal, during: `acquire ${JSON.stringify(name)}` };
    const own = { ...ownValues(request), ...this.#until(request.ttlMs) };
    let takeOver = request.takeOver;
    let statement: Statement = statements.TAKE;
    let held: Held = { why: "held" };
    for (let tries = 0; tries < TRIES; tries++) {
      const seed =
        statement === statements.MAKE
          ? { ":seed": { N: String(await this.#parts.store.nextSeed(during)) } }
          : versionValues(takeOver);
      const written = await this.#update(name, statement, { ...own, ...seed }, during);
      if ("done" in written) return { grant: grantOf(request, this.#read(written.done, during)) };
      const item = "refused" in written ? written.refused : written.doubted;
      statement = item === undefined ? statements.MAKE : statements.TAKE;
      const found = item === undefined ? undefined : this.#read(item, during);
      if (found?.holder === holder && !found.isFree) {
        const grant = await this.#repeat(request, own, during);
        if (grant !== undefined) return { grant };
        continue;
      }
      if ("doubted" in written) throw notDone(written.failure);
      if (found === undefined || found.isFree) continue;
      held = toHeld(found);
      const isOver = this.#isOver(found);
      if (!isOver) {
        await this.#leaveNote(found, signal);
        return { held };
      }
      takeOver = held.version;
    }
    return { held };
  }

  /** Each is a request of its own, and one that hangs does not keep the answers of the others. */
  async renew(grants: readonly Grant[], call: Call): Promise<readonly Renewed[]> {
    let timer: Timer | undefined;
    const over = new Promise<"unknown">((resolve) => {
      const withinMs = call.timeoutMs * RENEWALS_WITHIN;
      timer = this.#parts.timers.after(withinMs, () => resolve("unknown"), { ref: false });
    });
    try {
      return await Promise.all(
        grants.map((grant) => Promise.race([this.#renew(grant, call.signal), over])),
      );
    } finally {
      timer?.cancel();
    }
  }

  async #renew(grant: Grant, signal: AbortSignal): Promise<Renewed> {
    const { renewals, table } = this.#parts;
    const during = { signal, during: `renew ${JSON.stringify(grant.name)}` };
    const values = { ...valuesOf(grant), ":ttl": { N: String(grant.ttlMs) } };
    const all = { ...values, ...this.#until(grant.ttlMs) };
    try {
      let found: LeaseRecord | undefined;
      for (const statement of [statements.RENEW, statements.RENEW_UNTIL_THEN]) {
        const update = updateOf(table, grant.name, statement, all);
        const written = await renewals.update(update, during);
        if ("done" in written) return "renewed";
        if ("doubted" in written) return "unknown";
        found = written.refused === undefined ? undefined : this.#read(written.refused, during);
        const isMine = found?.holder === grant.holder && found.token === grant.token;
        if (!isMine || found?.isFree !== false) break;
      }
      return { lost: found === undefined || found.isFree ? "absent" : toHeld(found) };
    } catch (error) {
      // Whatever else is wrong with one renewal must not take the answers of the others with it.
      return error instanceof UnavailableError ? "unavailable" : "unknown";
    }
  }

  async release(requests: readonly Brought[], { signal }: Call): Promise<readonly Released[]> {
    const [first] = requests;
    if (requests.length === 1 && first !== undefined) return [await this.#release(first, signal)];
    return Promise.all(
      requests.map((request) =>
        this.#release(request, signal).catch((error: unknown) => {
          if (error instanceof OutcomeUnknownError) return "unknown" as const;
          throw error;
        }),
      ),
    );
  }

  async #release(request: Brought, signal: AbortSignal): Promise<Released> {
    const during = { signal, during: `release ${JSON.stringify(request.name)}` };
    const statement = request.token === undefined ? statements.CLEAN_UP : statements.RELEASE;
    const wasHeld = await this.#letGo(request.name, statement, valuesOf(request), during);
    return wasHeld ? "released" : "not-held";
  }

  async break(name: string, token: bigint, { signal }: Call): Promise<boolean> {
    const during = { signal, during: `break ${JSON.stringify(name)}` };
    return this.#letGo(name, statements.BREAK, { ":token": { N: String(token) } }, during);
  }

  async inspect(name: string, { signal }: Call): Promise<Held | null> {
    const during = { signal, during: `look at ${JSON.stringify(name)}` };
    const item = await this.#parts.client.get(this.#parts.table, keyOf(name), during);
    const found = item === undefined ? undefined : this.#read(item, during);
    return found === undefined || found.isFree ? null : toHeld(found);
  }

  /** Reads the whole table: a key has no order with others. */
  async *list(
    prefix: string,
    { signal }: Call,
  ): AsyncIterable<Held & { readonly name: string }> {
    const filter = {
      TableName: this.#parts.table,
      FilterExpression: `begins_with(${KEY}, :prefix) AND #free = :false`,
      ExpressionAttributeNames: { "#free": NAMES["#free"] },
      ExpressionAttributeValues: { ":prefix": { S: keyText(prefix) }, ":false": { BOOL: false } },
    };
    const during = { signal, during: "list leases" };
    for await (const item of this.#parts.client.scan(filter, during)) {
      const found = readRecord(item);
      if (found === undefined) continue;
      const held = toHeld(found);
      this.#listed.note(found.name, held);
      yield { name: found.name, ...held };
    }
  }

  /** What this holder was granted before, with its time starting anew. */
  async #repeat(
    request: AcquireRequest,
    own: Item,
    during: During,
  ): Promise<Grant | undefined> {
    const written = await this.#update(request.name, statements.REPEAT, own, during);
    if ("doubted" in written) throw written.failure;
    return "done" in written ? grantOf(request, this.#read(written.done, during)) : undefined;
  }

  /** Whether the holder's time is over, by what this machine's processes saw, or by wall clocks. */
  #isOver(found: LeaseRecord): boolean {
    const { maxSkewMs, clock, sightings } = this.#parts;
    if (maxSkewMs !== undefined && found.untilMs !== undefined) {
      if (clock.wallMs() > found.untilMs + maxSkewMs) return true;
    }
    return this.#listed.ripe(found.name, toHeld(found)) !== undefined || sightings.isRipe(found);
  }

  async #leaveNote(found: LeaseRecord, signal: AbortSignal): Promise<void> {
    const { sightings } = this.#parts;
    const note = sightings.note(found);
    const { boot } = sightings;
    if (note === undefined || boot === undefined) return;
    const attribute = writeSighting(note);
    const isFull = found.seen.size >= MOST_NOTES && !found.seen.has(boot);
    const notes = { ":note": attribute, ":notes": { M: { [boot]: attribute } } };
    const values = { ...versionValues(formatVersion(found)), ...notes };
    const statement = isFull ? statements.NOTE_ALONE : statements.NOTE;
    const during = { signal, during: `note a look at ${JSON.stringify(found.name)}` };
    try {
      await this.#update(found.name, statement, values, during, { "#boot": boot });
    } catch {
      // The answer is known already; without the note a later process waits a TTL longer.
    }
  }

  async #letGo(
    name: string,
    statement: Statement,
    values: Item,
    during: During,
  ): Promise<boolean> {
    const id = this.#parts.random.id();
    const written = await this.#update(name, statement, { ...values, ":by": { S: id } }, during);
    if ("done" in written) return true;
    const item = "refused" in written ? written.refused : written.doubted;
    const found = item === undefined ? undefined : this.#read(item, during);
    if (found?.isFree === true && found.freedBy === id) return true;
    if ("doubted" in written) throw notDone(written.failure);
    return false;
  }

  #update(
    name: string,
    statement: Statement,
    values: Item,
    during: During,
    names: Readonly<Record<string, string>> = {},
  ): Promise<Written> {
    const { client, table } = this.#parts;
    return client.update(updateOf(table, name, statement, values, names), during);
  }

  #until(ttlMs: number): Item {
    const { maxSkewMs, clock } = this.#parts;
    if (maxSkewMs === undefined) return {};
    return { ":until": { N: String(Math.ceil(clock.wallMs()) + ttlMs) } };
  }

  #read(item: Item, { during }: During): LeaseRecord {
    const record = readRecord(item);
    if (record !== undefined) return record;
    const key = JSON.stringify(item[KEY]?.["S"]);
    const text = `cannot ${during}: the item ${key} holds something that is no lease`;
    throw new UnavailableError(text, { backend: "dynamodb", retryable: false });
  }
}

function valuesOf({ holder, token }: Brought): Item {
  const mine = { ":me": { S: holder } };
  return token === undefined ? mine : { ...mine, ":token": { N: String(token) } };
}

function grantOf({ name, holder, ttlMs }: AcquireRequest, { token }: LeaseRecord): Grant {
  return { name, holder, token: toToken(token), ttlMs };
}

/** A failure that a look has shown to have changed nothing. */
function notDone(failure: Error): UnavailableError {
  return new UnavailableError(failure.message, { backend: "dynamodb", cause: failure });
}
