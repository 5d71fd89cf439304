/** The steps on leases: each is one request, or one that the recipe of `place.ts` makes safe. */
import type {
  AcquireRequest,
  Call,
  Grant,
  Held,
  Released,
  ReleaseRequest,
  Renewed,
  Ticket,
} from "../../core/backend.js";
import { toToken } from "../../core/token.js";
import type { Faults, ZkClient, ZkSession } from "./client.js";
import { readLine } from "./line.js";
import { decodeName, encodeName, type Contender } from "./names.js";
import type { Place, Standing } from "./place.js";
import type { Places } from "./places.js";
import { heldOf } from "./record.js";

/** What {@link Leases} works with. */
export interface LeasesParts {
  /** Node with the folders of all names. */
  readonly leases: string;
  readonly places: Places;
  readonly client: ZkClient;
  readonly faults: Faults;
  /** The TTL that a session of this time-out carries. */
  readonly ttlOf: (sessionMs: number) => number;
}

/** Names that are looked at in one round trip when listing. */
const LIST_AT_ONCE = 64;
/** For what nobody waits for: giving up an offer that has lapsed. */
const ASIDE_MS = 5_000;

/** All steps of one backend. */
export class Leases {
  readonly #parts: LeasesParts;

  constructor(parts: LeasesParts) {
    this.#parts = parts;
  }

  /** Runs a step, its errors told as ours. */
  async run<R>(during: string, lock: string | undefined, step: () => Promise<R>): Promise<R> {
    try {
      return await step();
    } catch (error) {
      throw this.#parts.faults.explain(error, {
        during,
        backend: "zookeeper",
        ...(lock === undefined ? {} : { lock }),
      });
    }
  }

  async acquire(request: AcquireRequest, call: Call): Promise<{ grant: Grant } | { held: Held }> {
    return this.run("acquire a lease", request.name, async () => {
      const place = await this.#parts.places.enter(request, call);
      return this.#entered(place, () => this.#acquire(place, call));
    });
  }

  async renew(grants: readonly Grant[], call: Call): Promise<readonly Renewed[]> {
    const { places } = this.#parts;
    const bySession = new Map<ZkSession, Place[]>();
    const found = grants.map(({ name, holder, token }) => {
      const place = places.find(name, holder);
      const isIt = place?.node?.czxid === token && !place.session.isGone && place.hold();
      if (!isIt) return undefined;
      const together = bySession.get(place.session) ?? [];
      bySession.set(place.session, [...together, place]);
      return place;
    });
    const live = new Set<Place>();
    await this.run("renew leases", grants[0]?.name, async () => {
      try {
        for (const [session, together] of bySession) {
          const paths = together.map(({ node }) => node!.path);
          const nodes = await session.nodes(paths, call);
          for (const [i, place] of together.entries()) if (place.isOurs(nodes[i])) live.add(place);
        }
      } finally {
        for (const place of found) place?.held(live.has(place), () => this.#lapse(place));
      }
    });
    return Promise.all(
      grants.map(async ({ name, holder, token }, i): Promise<Renewed> => {
        const place = found[i];
        if (place !== undefined && live.has(place)) return "renewed";
        if (place !== undefined && place.node?.czxid === token) this.#gone(place);
        const by = await this.inspect(name, call);
        // Of a session that has just ended the ensemble may still show our own node.
        return { lost: by === null || by.holder === holder ? "absent" : by };
      }),
    );
  }

  async release(request: ReleaseRequest, call: Call): Promise<Released> {
    const { name, holder, token } = request;
    return this.run("release a lease", name, async () => {
      const place = this.#parts.places.find(name, holder);
      if (place === undefined) return this.#releaseUnknown(request, call);
      const answer = await place.inTurn(() => place.remove(call, token));
      if (!place.mayStand) this.#parts.places.remove(place);
      return answer;
    });
  }

  async break(name: string, token: bigint, call: Call): Promise<boolean> {
    return this.run("break a lease", name, () =>
      this.#parts.client.use(call, async (session) => {
        const [head] = await readLine(session, this.#folder(name), call, true);
        const path = head === undefined ? undefined : `${this.#folder(name)}/${head.node}`;
        if (path === undefined) return false;
        const node = await session.node(path, call);
        if (node?.stat.czxid !== token) return false;
        // The name of a node is not used twice: what is deleted is what was read.
        return (await session.commit([{ kind: "delete", path, version: -1 }], call)).ok;
      }),
    );
  }

  async inspect(name: string, call: Call): Promise<Held | null> {
    return this.run("look at a lease", name, () =>
      this.#parts.client.use(call, (session) => this.#look(session, name, call)),
    );
  }

  async *list(prefix: string, call: Call): AsyncGenerator<Held & { readonly name: string }> {
    const { client, leases } = this.#parts;
    const folders = await this.run("list leases", undefined, () =>
      client.use(call, (session) => session.children(leases, call, true)),
    );
    const names = (folders ?? []).flatMap((folder) => {
      const name = decodeName(folder);
      return name?.startsWith(prefix) === true ? [name] : [];
    });
    for (let from = 0; from < names.length; from += LIST_AT_ONCE) {
      const some = names.slice(from, from + LIST_AT_ONCE);
      const held = await Promise.all(some.map((name) => this.inspect(name, call)));
      for (const [i, one] of held.entries()) if (one !== null) yield { name: some[i]!, ...one };
    }
  }

  /** A place in line. */
  async enqueue(request: AcquireRequest, call: Call): Promise<Place> {
    return this.run("wait for a lease", request.name, async () => {
      const place = await this.#parts.places.enter(request, call);
      await this.#entered(place, () => place.take(call));
      return place;
    });
  }

  /** One list for each name, however many of its waiters are asked about. */
  async touch(
    tickets: readonly Ticket[],
    call: Call,
  ): Promise<readonly ("waiting" | "gone" | Grant)[]> {
    const { places } = this.#parts;
    const lines = new Map<string, Promise<readonly Contender[]>>();
    return this.run("say that waiters live", tickets[0]?.name, () =>
      Promise.all(
        tickets.map(async ({ name, holder }) => {
          const place = places.find(name, holder);
          if (place?.node === undefined || place.session.isGone) return "gone";
          const key = `${place.session.id} ${name}`;
          const asking = lines.get(key) ?? place.line(call, true);
          lines.set(key, asking);
          const standing = place.standingIn(await asking);
          if (standing === "absent") return this.#gone(place);
          return standing === "first" ? this.offer(place) : "waiting";
        }),
      ),
    );
  }

  /** It is this contender's turn. */
  offer(place: Place): Grant | "gone" {
    if (place.node === undefined) return "gone";
    place.offer(() => this.#lapse(place));
    return this.#grant(place);
  }

  /** Where a waiter stands. A session never sees a state older than what it did. */
  async standing(place: Place, call: Call): Promise<Exclude<Standing, "absent"> | "gone"> {
    const standing = await place.standing(call, false);
    return standing === "absent" ? this.#gone(place) : standing;
  }

  /**
   * Somebody else has deleted its node, which never comes back: nothing of the attempt stands, and
   * nobody need give it up.
   */
  #gone(place: Place): "gone" {
    if (place.isDeleting) return "gone";
    place.end();
    this.#parts.places.remove(place);
    return "gone";
  }

  /** Gives up a place or an offer, not a lease. */
  async leave(place: Place, call: Call): Promise<void> {
    if (place.isConfirmed) return;
    await this.run("leave the line", place.request.name, () =>
      place.inTurn(() => place.remove(call)),
    );
    this.#parts.places.remove(place);
  }

  /** A step of an attempt. One that left nothing behind is forgotten: nobody will clean it up. */
  async #entered<R>(place: Place, step: () => Promise<R>): Promise<R> {
    try {
      return await place.inTurn(step);
    } catch (error) {
      if (!place.mayStand) this.#parts.places.remove(place);
      throw error;
    }
  }

  async #acquire(place: Place, call: Call): Promise<{ grant: Grant } | { held: Held }> {
    const { places } = this.#parts;
    const { name } = place.request;
    for (;;) {
      // A try that is refused writes nothing: it looks first, and believes only a fresh refusal.
      // Where this process was the last to leave there is nothing to look for.
      if (!place.mayStand && !places.wasLeft(name)) {
        const line = await place.line(call, false);
        const isBusy = line.length > 0 && (await place.line(call, true)).length > 0;
        if (isBusy) {
          const held = await this.#look(place.session, name, call);
          if (held === null) continue;
          places.remove(place);
          return { held };
        }
      }
      const wasThere = place.node !== undefined;
      const isAlone = await place.take(call);
      const standing = isAlone ? "first" : await place.standing(call, wasThere);
      if (standing === "first") return { grant: this.#grant(place) };
      if (standing === "absent") {
        place.forget();
        continue;
      }
      await place.remove(call);
      const held = await this.#look(place.session, name, call);
      if (held === null) continue;
      places.remove(place);
      return { held };
    }
  }

  #grant(place: Place): Grant {
    const { request, session, node } = place;
    return {
      name: request.name,
      holder: request.holder,
      token: toToken(node!.czxid),
      ttlMs: Math.min(request.ttlMs, this.#parts.ttlOf(session.timeoutMs)),
      // The upper half of a transaction's id counts the leaders.
      storeEpoch: String(session.lastZxid >> 32n),
      session: session.id,
    };
  }

  /** Nobody confirmed the offer: the next one's turn. If this fails, the session's end does it. */
  #lapse(place: Place): void {
    const call: Call = { signal: new AbortController().signal, timeoutMs: ASIDE_MS };
    void place
      .inTurn(() => place.remove(call))
      .then(
        () => this.#parts.places.remove(place),
        () => undefined,
      );
  }

  /** Of an attempt that this process knows nothing of, or has given back. */
  async #releaseUnknown(
    { name, holder, token }: ReleaseRequest,
    call: Call,
  ): Promise<"released" | "not-held"> {
    return this.#parts.client.use(call, async (session) => {
      const line = await readLine(session, this.#folder(name), call, true);
      let answer: "released" | "not-held" = "not-held";
      for (const own of line.filter((contender) => contender.holder === holder)) {
        const path = `${this.#folder(name)}/${own.node}`;
        const node = token === undefined ? undefined : await session.node(path, call);
        if (token !== undefined && node?.stat.czxid !== token) continue;
        const { ok } = await session.commit([{ kind: "delete", path, version: -1 }], call);
        if (ok) answer = "released";
      }
      return answer;
    });
  }

  /** Who is first in line, fresh. */
  async #look(session: ZkSession, name: string, call: Call): Promise<Held | null> {
    for (;;) {
      const line = await readLine(session, this.#folder(name), call, true);
      const [head] = line;
      if (head === undefined) return null;
      const node = await session.node(`${this.#folder(name)}/${head.node}`, call);
      if (node !== undefined) return heldOf(head, node, line.length - 1);
    }
  }

  #folder(name: string): string {
    return `${this.#parts.leases}/${encodeName(name)}`;
  }
}
