import { must } from "../broken-promise.js";
import { allOf, whereQueued, type ConformanceCase, type Conditions } from "../case.js";
import type { Client, Waiting } from "../client.js";
import type { Trial } from "../trial.js";

type Turn = Exclude<Awaited<Waiting["turn"]>, "gone">;

function whereFair({ manifest }: Conditions): true | string {
  return manifest.fair ? true : "fair: false promises no order, so none can be missed";
}

/** Longer than an offer may stand unconfirmed. */
const OFFER_OVER_MS = 2_500;
/** Sooner than an offer lapses by itself. */
const AT_ONCE_MS = 700;
/** Longer than a store may take to find that a waiter is silent. */
const LONG_MS = 7_000;
/** How often a waiting case touches, at most. */
const TOUCH_MS = 250;
const WAITERS = 5;

/** Places in the store's queue: order, offers, and waiters that are no more. */
export const queueCases: readonly ConformanceCase[] = [
  {
    id: "queue-free-name",
    title: "on a free name the turn comes at once; renewed, the offer is a lease",
    applies: whereQueued,
    async run(trial) {
      const [a, b] = await trial.clients();
      const offer = await heard(trial, await a.wait(trial.name()));
      must((await a.renew(offer))[0] === "renewed", "an offer", "it could not be renewed");
      await trial.advance(OFFER_OVER_MS);
      await b.refused(trial.name());
      await a.free(offer);
      await b.take(trial.name());
    },
  },
  {
    id: "queue-order",
    title: "waiters of all clients are served in order of arrival, with rising tokens",
    applies: allOf(whereQueued, whereFair),
    async run(trial) {
      const clients = await trial.clients();
      let held = await clients[0].take(trial.name());
      const line: Waiting[] = [];
      for (let i = 0; i < WAITERS; i++) line.push(await clients[i % 2]!.wait(trial.name()));
      for (const [i, waiting] of line.entries()) {
        await clients[0].free(held);
        const next = await confirmed(trial, clients[i % 2]!, waiting);
        trial.rises(held.token, next.token, "a hand-over");
        const early = line.findIndex((later, j) => j > i && later.heard());
        must(early === -1, "fair true", `waiter ${early} was called with waiter ${i}`);
        held = next;
      }
    },
  },
  {
    id: "queue-no-barging",
    title: "a newcomer does not overtake the waiter whose turn it is",
    applies: allOf(whereQueued, whereFair),
    async run(trial) {
      const [a, b] = await trial.clients();
      const held = await a.take(trial.name());
      const waiting = await b.wait(trial.name());
      await a.free(held);
      await a.refused(trial.name());
      await confirmed(trial, b, waiting);
    },
  },
  {
    id: "queue-idempotent",
    title: "a repeated enqueue of one holder takes no second place",
    applies: whereQueued,
    async run(trial) {
      const [a, b] = await trial.clients();
      const held = await a.take(trial.name());
      const wish = { holder: trial.holder() };
      await a.enqueue(trial.name(), wish);
      const waiting = await a.wait(trial.name(), wish);
      await a.free(held);
      await a.free(await confirmed(trial, a, waiting));
      await b.take(trial.name());
    },
  },
  {
    id: "queue-expiry",
    title: "a lease that expires is offered to the waiter that says it lives",
    applies: whereQueued,
    async run(trial) {
      const [a, b] = await trial.clients();
      const held = await a.take(trial.name(), { ttlMs: trial.roomyTtlMs });
      const waiting = await b.wait(trial.name());
      await trial.advance(trial.roomyTtlMs * 0.5);
      must(!waiting.heard(), "queue", "the turn came while the lease was held");
      const next = await confirmed(trial, b, waiting, trial.roomyTtlMs + trial.wakeWithinMs);
      trial.rises(held.token, next.token, "an expiry with a waiter");
    },
  },
  {
    id: "queue-offer-lapses",
    title: "an offer that is not renewed goes to the next, and cannot be renewed later",
    applies: whereQueued,
    async run(trial) {
      const [a, b] = await trial.clients();
      const held = await a.take(trial.name());
      const first = await a.wait(trial.name());
      const second = await b.wait(trial.name());
      await a.free(held);
      const missed = await called(trial, first);
      const next = await confirmed(trial, b, second, OFFER_OVER_MS + trial.wakeWithinMs);
      trial.rises(missed.token, next.token, "an offer that lapsed");
      const [late] = await a.renew(missed);
      must(late !== "renewed", "an offer lapses", "it was renewed after the next had its turn");
    },
  },
  {
    id: "queue-offer-repeated",
    title: "touch repeats an offer whose notice was lost, with the same token",
    applies: whereQueued,
    async run(trial) {
      const [a, b] = await trial.clients();
      const held = await a.take(trial.name());
      const unheard = await b.enqueue(trial.name());
      const [before] = await b.touch(unheard);
      must(before === "waiting", "touch of a waiter", `it answered ${show(before)}`);
      await a.free(held);
      const [offer] = await b.touch(unheard);
      must(typeof offer === "object", "touch repeats the offer", `it answered ${show(offer)}`);
      const [again] = await b.touch(unheard);
      must(typeof again === "object", "touch repeats the offer", `it answered ${show(again)}`);
      must(again.token === offer.token, "touch repeats the offer", "the token moved");
      must((await b.renew(offer))[0] === "renewed", "an offer", "it could not be renewed");
    },
  },
  {
    id: "queue-leave",
    title: "a waiter that leaves, with or without an offer, passes the turn on at once",
    applies: whereQueued,
    async run(trial) {
      const [a, b] = await trial.clients();
      const held = await a.take(trial.name());
      const first = await a.wait(trial.name());
      const second = await b.wait(trial.name());
      const third = await a.wait(trial.name());
      await first.ticket.leave(a.call());
      await a.free(held);
      const offer = await heard(trial, second);
      await second.ticket.leave(b.call());
      const next = await heard(trial, third);
      trial.rises(offer.token, next.token, "an offer that was declined");
      await third.ticket.leave(a.call());
      await b.take(trial.name());
    },
  },
  {
    id: "queue-gone",
    title: "touch answers gone for a waiter that the store does not know",
    applies: whereQueued,
    async run(trial) {
      const [a, b] = await trial.clients();
      await a.take(trial.name());
      const left = await b.enqueue(trial.name());
      const stays = await b.enqueue(trial.name());
      await left.leave(b.call());
      const outcomes = await b.touch(left, stays);
      const right = outcomes[0] === "gone" && outcomes[1] === "waiting";
      must(right, "touch answers in order", outcomes.map(show).join(", "));
    },
  },
  {
    id: "queue-attempt-undone",
    title: "a release without token gives up a place and an offer",
    applies: whereQueued,
    async run(trial) {
      const [a, b] = await trial.clients();
      const held = await a.take(trial.name());
      const first = await b.enqueue(trial.name());
      const second = await b.wait(trial.name());
      await b.release({ name: trial.name(), holder: first.holder });
      await a.free(held);
      await heard(trial, second);
      await b.release({ name: trial.name(), holder: second.ticket.holder });
      await a.take(trial.name());
    },
  },
  {
    id: "queue-place-kept",
    title: "a waiter that says it lives keeps its place however long; a silent one is passed over",
    applies: allOf(whereQueued, whereFair),
    async run(trial) {
      const [a, b] = await trial.clients();
      let held = await a.take(trial.name());
      await a.wait(trial.name());
      const living = await b.wait(trial.name());
      const pauseMs = b.queue.touchEveryMs;
      for (let waitedMs = 0; waitedMs < LONG_MS; waitedMs += pauseMs) {
        await trial.advance(pauseMs);
        const [state] = await b.touch(living.ticket);
        must(state === "waiting", "a living waiter keeps its place", `it answered ${show(state)}`);
      }
      const newcomer = await a.wait(trial.name());
      await a.free(held);
      held = await confirmed(trial, b, living, OFFER_OVER_MS + trial.wakeWithinMs);
      must(!newcomer.heard(), "fair true", "a newcomer was called before the living waiter");
      await b.free(held);
      await confirmed(trial, a, newcomer);
    },
  },
  {
    id: "queue-turn-aborted",
    title: "awaiting the turn ends with the reason of the signal, and the place can be left",
    applies: whereQueued,
    async run(trial) {
      const [a, b] = await trial.clients();
      const held = await a.take(trial.name());
      const ticket = await b.enqueue(trial.name());
      const controller = new AbortController();
      const reason = new Error("no longer");
      const turn = ticket.turn(controller.signal).then(
        () => undefined,
        (error: unknown) => error,
      );
      controller.abort(reason);
      const seen = await trial.within(trial.wakeWithinMs, turn, "turn with an aborted signal");
      must(seen === reason, "turn rejects with the signal's reason", String(seen));
      await ticket.leave(b.call());
      await a.free(held);
      await a.take(trial.name());
    },
  },
];

/** The offer that a waiter hears of at once, without asking. */
async function heard(trial: Trial, waiting: Waiting): Promise<Turn> {
  const turn = await trial.within(AT_ONCE_MS, waiting.turn, "a waiter's turn");
  must(turn !== "gone", "a waiter's turn", "its place was gone");
  return turn;
}

/** The offer that a waiter gets, which meanwhile says that it lives, as the core would. */
async function called(
  trial: Trial,
  waiting: Waiting,
  limitMs: number = trial.wakeWithinMs,
): Promise<Turn> {
  const touchEveryMs = Math.min(limitMs, TOUCH_MS);
  let turn: Turn | "waiting" | "gone" | undefined;
  for (let leftMs = limitMs; leftMs > 0 && typeof turn !== "object"; leftMs -= touchEveryMs) {
    turn = await trial.settled(Math.min(leftMs, touchEveryMs), waiting.turn);
    turn ??= await waiting.touch();
    must(turn !== "gone", "a waiter's turn", "its place was gone");
  }
  must(typeof turn === "object", "a waiter's turn", `it did not come within ${limitMs} ms`);
  return turn;
}

/** The offer that a waiter gets, made a lease. */
async function confirmed(
  trial: Trial,
  client: Client,
  waiting: Waiting,
  limitMs?: number,
): Promise<Turn> {
  const offer = await called(trial, waiting, limitMs);
  const [outcome] = await client.renew(offer);
  must(outcome === "renewed", "an offer is a lease after one renewal", JSON.stringify(outcome));
  return offer;
}

function show(state: "waiting" | "gone" | object | undefined): string {
  return typeof state === "object" ? "an offer" : String(state);
}
