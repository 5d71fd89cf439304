/** The attempts of one process, by name and holder, each under one session. */
import type { AcquireRequest, Call } from "../../core/backend.js";
import { UnavailableError } from "../../core/errors.js";
import type { ZkSession } from "./client.js";
import { Place, type PlaceParts } from "./place.js";

/** Names that are remembered as left. */
const MOST_LEFT = 1_000;

/** The sessions that were opened for leases, and the places under them. */
export class Places {
  readonly #parts: PlaceParts;
  /** Names whose last contender was one of this process, the longest ago first. */
  readonly #left = new Set<string>();
  readonly #sessions = new Map<string, ZkSession>();
  readonly #places = new Map<string, Place>();

  constructor(parts: Omit<PlaceParts, "left">) {
    const left = (name: string, nobody: boolean): void => {
      this.#left.delete(name);
      if (!nobody) return;
      this.#left.add(name);
      if (this.#left.size > MOST_LEFT) this.#left.delete(this.#left.values().next().value!);
    };
    this.#parts = { ...parts, left };
  }

  get sessions(): readonly ZkSession[] {
    return [...this.#sessions.values()];
  }

  add(session: ZkSession): void {
    this.#sessions.set(session.id, session);
  }

  session(id: string): ZkSession | undefined {
    return this.#sessions.get(id);
  }

  /** The session has ended, and its nodes with it. */
  drop(id: string): void {
    this.#sessions.delete(id);
    for (const [key, place] of this.#places) {
      if (place.session.id !== id) continue;
      this.#places.delete(key);
      place.end();
    }
  }

  /**
   * Whether nobody was in line when this process left it last: a guess, good for one attempt. One
   * that fails tells what has become of it when it leaves in turn.
   */
  wasLeft(name: string): boolean {
    return this.#left.delete(name);
  }

  find(name: string, holder: string): Place | undefined {
    return this.#places.get(keyOf(name, holder));
  }

  remove(place: Place): void {
    const key = keyOf(place.request.name, place.request.holder);
    if (this.#places.get(key) === place) this.#places.delete(key);
  }

  /**
   * The place of a request, new or known. What the same holder may have left under another session
   * is deleted first, in that session: one of them would stand behind the other.
   *
   * @throws UnavailableError where the session is not open.
   */
  async enter(request: AcquireRequest, call: Call): Promise<Place> {
    const { name, holder, session: id } = request;
    const session = id === undefined ? undefined : this.#sessions.get(id);
    if (session === undefined || session.isGone) {
      throw new UnavailableError("the session of this attempt has ended", {
        backend: "zookeeper",
        lock: name,
      });
    }
    const known = this.find(name, holder);
    if (known?.session === session) return known;
    if (known !== undefined) {
      await known.inTurn(() => known.remove(call));
      this.remove(known);
    }
    const place = new Place(request, session, this.#parts);
    this.#places.set(keyOf(name, holder), place);
    return place;
  }
}

/** A name has no NUL. */
function keyOf(name: string, holder: string): string {
  return `${name}\0${holder}`;
}
