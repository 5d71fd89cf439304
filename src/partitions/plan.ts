/**
 * Who is to own what: computed by every member alike from what the store shows, so that nobody has
 * to be asked.
 *
 * Shares are even to one: of `n` partitions and `m` members each gets `n / m` rounded down, and the
 * rest goes by one. Those who own more than the even share already keep the one more, so that no
 * partition moves that need not. Who owns more than its share gives the surplus up; what is free
 * goes to those who own less, each partition to the one of them whose score with it is highest.
 *
 * A plan that is half carried out leaves the other half as it was: whoever looks meanwhile computes
 * the same owners for the rest, so two members seldom reach for one partition. Nothing rests on
 * that: the lease of the partition decides.
 */
import { murmur2 } from "./key-hash.js";

/** What a member saw. */
export interface Seen {
  readonly count: number;
  /** Ids of the living members. */
  readonly members: readonly string[];
  /**
   * The member that owns each partition; `elsewhere` while it is held by somebody who is no member
   * any more, or is being given up; without an entry it is free.
   */
  readonly owners: ReadonlyMap<number, string>;
}

/** Held, by no living member that is to keep it. */
export const ELSEWHERE = "";

/** What the plan asks of one member. */
export interface Part {
  /** Free, and this member's to take. */
  readonly take: readonly number[];
  /** This member's as soon as whoever holds it is gone. */
  readonly await: readonly number[];
  /** Owned, and to be given up. */
  readonly revoke: readonly number[];
  /** Whether the shares of all members are as they are to be. */
  readonly isSettled: boolean;
}

/** The part of `member` in the plan. */
export function partOf(member: string, { count, members, owners }: Seen): Part {
  const owned = new Map<string, number[]>(members.map((id) => [id, []]));
  const open: number[] = [];
  for (let partition = 0; partition < count; partition++) {
    const list = owned.get(owners.get(partition) ?? ELSEWHERE);
    if (list === undefined) open.push(partition);
    else list.push(partition);
  }
  const shares = sharesOf(count, owned);
  const scoreOf = scoring(members);
  const revoke: number[] = [];
  let surplus = 0;
  for (const [id, list] of owned) {
    const extra = list.length - shares.get(id)!;
    if (extra <= 0) continue;
    surplus += extra;
    const given = byScore(id, list, scoreOf).slice(-extra);
    open.push(...given);
    if (id === member) revoke.push(...given);
  }
  const room = new Map([...owned].map(([id, list]) => [id, shares.get(id)! - list.length]));
  const mine = assigned(open, room, member, scoreOf);
  return {
    take: mine.filter((partition) => !owners.has(partition)),
    await: mine.filter((partition) => owners.get(partition) === ELSEWHERE),
    revoke,
    isSettled: open.length === 0 && surplus === 0,
  };
}

/** How many partitions each member is to have. */
function sharesOf(
  count: number,
  owned: ReadonlyMap<string, readonly number[]>,
): ReadonlyMap<string, number> {
  const even = Math.floor(count / owned.size);
  const rest = count % owned.size;
  // By how much somebody is over does not count: each place keeps one partition where it is, and an
  // order by numbers would change while partitions are given up and taken.
  const over = (id: string): number => (owned.get(id)!.length > even ? 1 : 0);
  const ranked = [...owned.keys()].sort((a, b) => over(b) - over(a) || (a < b ? -1 : 1));
  return new Map(ranked.map((id, place) => [id, even + (place < rest ? 1 : 0)]));
}

/** What of `open` falls to `member`, when each goes to the highest score that has room. */
function assigned(
  open: readonly number[],
  room: Map<string, number>,
  member: string,
  scoreOf: Score,
): readonly number[] {
  const mine: number[] = [];
  const candidates = [...room].filter(([, free]) => free > 0).map(([id]) => id);
  for (const partition of [...open].sort((a, b) => a - b)) {
    let best: string | undefined;
    let highest = -1;
    for (const id of candidates) {
      if (room.get(id)! <= 0) continue;
      const score = scoreOf(id, partition);
      if (score > highest || (score === highest && id < best!)) [best, highest] = [id, score];
    }
    if (best === undefined) break;
    room.set(best, room.get(best)! - 1);
    if (best === member) mine.push(partition);
  }
  return mine;
}

function byScore(id: string, list: readonly number[], scoreOf: Score): readonly number[] {
  const scores = new Map(list.map((partition) => [partition, scoreOf(id, partition)]));
  return [...list].sort((a, b) => scores.get(b)! - scores.get(a)! || a - b);
}

/** A number for each pair, the same for all who compute it. */
type Score = (id: string, partition: number) => number;

function scoring(ids: readonly string[]): Score {
  const text = new TextEncoder();
  const hashes = new Map(ids.map((id) => [id, murmur2(text.encode(id))]));
  return (id, partition) => {
    const pair = hashes.get(id)! ^ Math.imul(partition + 1, 0x9e3779b1);
    const mixed = Math.imul(pair ^ (pair >>> 16), 0x85ebca6b);
    return (mixed ^ (mixed >>> 13)) >>> 0;
  };
}
