/**
 * The place of one attempt in the line of one name: its own ephemeral sequential node.
 *
 * **Who holds.** The contender whose node is the first of its folder. A follower's answer may be
 * old, and the recipe is safe all the same: each state that a server shows is one that the ensemble
 * had, a session never sees a state older than what it did, and a node that has gone never comes
 * back under its name. So a list that has our node first, read after our node was made, shows that
 * everything before it has gone for good.
 *
 * **Tokens.** The transaction that made the node. Transactions are numbered over all changes of the
 * ensemble, and nodes of one folder stand in the order of their making: who comes first later was
 * made later.
 *
 * **A lost answer.** (1) We send `create`, the server makes the node, the connection breaks. (2) We
 * find another server, perhaps one that has not heard of the node yet. A list from there could
 * miss it, and we would stand behind ourselves. So after an unanswered `create` the list is asked
 * for after a `sync` **in the same session**: the leader takes requests of a session from one
 * server at a time, so that nothing of ours is on its way any more.
 *
 * **Another session.** The name of a node says which session made it. One that an earlier session
 * of ours made ends with that session, whenever the ensemble notices: it is deleted, never adopted.
 */
import type { AcquireRequest, Call } from "../../core/backend.js";
import type { Timer, Timers } from "../../core/clock.js";
import type { Change, Faults, Made, Node, ZkSession } from "./client.js";
import { readLine } from "./line.js";
import { contenderPrefix, encodeName, type Contender } from "./names.js";
import { recordOf } from "./record.js";

/** How long an offer stands without a renewal, milliseconds. */
const OFFER_MS = 1_000;

/** Our own node, as it was made. */
export interface OwnNode {
  readonly name: string;
  readonly path: string;
  readonly czxid: bigint;
}

/** Where a contender stands. */
export type Standing = "first" | "absent" | { readonly behind: Contender };

/** What places share. */
export interface PlaceParts {
  /** Node with the folders of all names. */
  readonly leases: string;
  readonly faults: Faults;
  readonly timers: Timers;
  /** Told after a node of this name was deleted: whether nobody was in line then. */
  readonly left: (name: string, nobody: boolean) => void;
}

/** The attempt of one holder. */
export class Place {
  readonly request: AcquireRequest;
  readonly session: ZkSession;
  readonly folder: string;
  /** Told when the node was given up here, so that nobody waits on. */
  onEnd: (() => void) | undefined;
  readonly #parts: PlaceParts;
  readonly #prefix: string;
  #node: OwnNode | undefined;
  /** A `create` was sent whose answer is lost. */
  #unsure = false;
  /** A `delete` was sent whose answer is lost. */
  #deleting = false;
  #offer: Timer | "over" | undefined;
  #confirmed = false;
  #tail: Promise<unknown> = Promise.resolve();

  constructor(request: AcquireRequest, session: ZkSession, parts: PlaceParts) {
    this.request = request;
    this.session = session;
    this.#parts = parts;
    this.folder = `${parts.leases}/${encodeName(request.name)}`;
    this.#prefix = contenderPrefix(request.holder, session.id);
  }

  /** Our node, once it was made. */
  get node(): OwnNode | undefined {
    return this.#node;
  }

  /** Whether something of this attempt may stand in the store. */
  get mayStand(): boolean {
    return this.#node !== undefined || this.#unsure;
  }

  /** Whether an answer about our node was lost, so that only a fresh list tells. */
  get isUnsure(): boolean {
    return this.#unsure;
  }

  /** Whether our node is being deleted from here, and the answer tells what became of it. */
  get isDeleting(): boolean {
    return this.#deleting;
  }

  /** Whether a renewal has made the offer a lease. */
  get isConfirmed(): boolean {
    return this.#confirmed;
  }

  /** One step at a time: a clean-up waits for the attempt that it cleans up after. */
  inTurn<R>(step: () => Promise<R>): Promise<R> {
    const turn = this.#tail.then(step);
    this.#tail = turn.catch(() => undefined);
    return turn;
  }

  isOwn(contender: Contender): boolean {
    return contender.holder === this.request.holder && contender.session === this.session.id;
  }

  /** The folder's contenders, in order. */
  async line(call: Call, fresh: boolean): Promise<readonly Contender[]> {
    return readLine(this.session, this.folder, call, fresh);
  }

  /**
   * Makes our node, or finds the one that an unanswered `create` has made. Answers whether it was
   * the only one of its folder when it had just been made, and so the first: false where this is
   * not known.
   */
  async take(call: Call): Promise<boolean> {
    let children: number | undefined;
    while (this.#node === undefined) {
      if (this.#unsure) await this.#recover(call);
      if (this.#node === undefined) children = await this.#create(call);
    }
    return children === 1;
  }

  /** Where our node stands. `fresh`: after whatever had happened when the call began. */
  async standing(call: Call, fresh: boolean): Promise<Standing> {
    return this.standingIn(await this.line(call, fresh));
  }

  /** Where our node stands in this list. */
  standingIn(line: readonly Contender[]): Standing {
    const at = line.findIndex(({ node }) => node === this.#node?.name);
    if (at < 0) return "absent";
    return at === 0 ? "first" : { behind: line[at - 1]! };
  }

  /** The node was not found any more: an attempt that goes on makes another. */
  forget(): void {
    this.#node = undefined;
    this.#unsure = false;
    this.#offer = undefined;
    this.#confirmed = false;
  }

  /** Whether a node that was read is ours, as it was made. */
  isOurs(node: Node | undefined): boolean {
    if (node === undefined || this.#node === undefined) return false;
    return node.stat.czxid === this.#node.czxid && node.stat.ephemeralOwner === this.session.owner;
  }

  /** From now on the turn is ours for a second. */
  offer(over: () => void): void {
    if (this.#offer !== undefined || this.#confirmed) return;
    this.#offer = this.#parts.timers.after(
      OFFER_MS,
      () => {
        this.#offer = "over";
        over();
      },
      { ref: false },
    );
  }

  /** A renewal is under way: the offer does not lapse meanwhile. Whether it still stands. */
  hold(): boolean {
    if (this.#offer === "over") return false;
    this.#offer?.cancel();
    return true;
  }

  /** What came of that renewal. */
  held(isRenewed: boolean, over: () => void): void {
    if (this.#confirmed || this.#offer === undefined || this.#offer === "over") return;
    this.#offer = undefined;
    if (isRenewed) this.#confirmed = true;
    else this.offer(over);
  }

  /**
   * Deletes whatever stands of this attempt; with `token`, only if that is its token.
   *
   * @throws what the session threw: then something may stand.
   */
  async remove(call: Call, token?: bigint): Promise<"released" | "not-held"> {
    try {
      if (!this.session.isGone) return await this.#remove(call, token);
    } catch (error) {
      if (!this.#parts.faults.isGone(error)) throw error;
    }
    // With its session the node has gone.
    this.end();
    return "not-held";
  }

  async #remove(call: Call, token: bigint | undefined): Promise<"released" | "not-held"> {
    if (this.#unsure) await this.#recover(call);
    const node = this.#node;
    if (node === undefined) {
      this.end();
      return "not-held";
    }
    if (token !== undefined && token !== node.czxid) return "not-held";
    const wasDeleting = this.#deleting;
    this.#deleting = true;
    const { committed, children } = await this.session.commitAndCount(
      [{ kind: "delete", path: node.path, version: -1 }],
      this.folder,
      call,
    );
    void children.then((left) => this.#parts.left(this.request.name, left === 0));
    this.#deleting = false;
    this.end();
    // Gone already: by our own delete, where one was not answered, else by another hand.
    return committed.ok || wasDeleting ? "released" : "not-held";
  }

  /** Nothing stands any more. */
  end(): void {
    this.hold();
    this.forget();
    this.#offer = "over";
    this.onEnd?.();
  }

  /** Answers how many nodes the folder had right after ours was made, where it was. */
  async #create(call: Call): Promise<number | undefined> {
    const child: Change = {
      kind: "create",
      path: `${this.folder}/${this.#prefix}`,
      data: recordOf(this.request),
      mode: "ephemeral-sequential",
    };
    // Together, since an empty folder that was never used is not removed by the server.
    const folder: Change = {
      kind: "create",
      path: this.folder,
      data: new Uint8Array(),
      mode: "container",
    };
    for (const changes of [[child], [folder, child]]) {
      const answer = await this.#commit(changes, call);
      if (answer === undefined) return undefined;
      const { committed, children } = answer;
      if (committed.ok) {
        // All that one transaction makes bears its number.
        const czxid = committed.done.find((made) => made?.stat !== undefined)?.stat?.czxid;
        this.#node = ownNode(committed.done.at(-1), czxid);
        this.#unsure = this.#node === undefined;
        return children;
      }
      if (committed.why !== "no-node") break;
    }
    return undefined;
  }

  /** Undefined when the answer was lost and the session goes on. */
  async #commit(
    changes: readonly Change[],
    call: Call,
  ): Promise<Awaited<ReturnType<ZkSession["commitAndCount"]>> | undefined> {
    const { faults } = this.#parts;
    this.#unsure = true;
    try {
      const answer = await this.session.commitAndCount(changes, this.folder, call);
      this.#unsure = false;
      return answer;
    } catch (error) {
      if (faults.isLost(error) && !call.signal.aborted) return undefined;
      if (!faults.isLost(error)) this.#unsure = false;
      throw error;
    }
  }

  async #recover(call: Call): Promise<void> {
    const line = await this.line(call, true);
    const [own] = line.filter((contender) => this.isOwn(contender));
    if (own !== undefined) {
      const path = `${this.folder}/${own.node}`;
      const node = await this.session.node(path, call);
      if (node !== undefined) this.#node = { name: own.node, path, czxid: node.stat.czxid };
    }
    this.#unsure = false;
  }
}

function ownNode(made: Made | undefined, czxid: bigint | undefined): OwnNode | undefined {
  if (made === undefined || czxid === undefined) return undefined;
  const { path } = made;
  return { name: path.slice(path.lastIndexOf("/") + 1), path, czxid };
}
