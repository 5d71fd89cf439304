import type { QueueWaiting, Released, Ticket } from "../../../src/core/backend.js";
import { Queue } from "../../../src/backends/memory/queue.js";
import { MemoryStore } from "../../../src/backends/memory/store.js";
import type { FencingToken } from "../../../src/core/token.js";
import type { AnyBackend } from "../../../src/testing/subject.js";
import { noticesOver } from "../variants.js";
import { change, type Mutant, type Wrap } from "./mutant.js";

type AnyQueue = QueueWaiting<FencingToken | undefined>;
type AnyTicket = Ticket<FencingToken | undefined>;

const call = { signal: new AbortController().signal, timeoutMs: 1_000 };

function queueing(
  changes: (queue: AnyQueue, backend: AnyBackend) => Partial<AnyQueue>,
): Wrap {
  return (backend) => {
    if (backend.waiting.kind !== "queue") throw new Error("not a queue");
    const waiting = { ...backend.waiting, ...changes(backend.waiting, backend) };
    return change(backend, { waiting });
  };
}

function ticketing(
  changes: (ticket: AnyTicket, backend: AnyBackend) => Partial<AnyTicket>,
): Wrap {
  return queueing((queue, backend) => ({
    enqueue: async (request, its) => {
      const ticket = await queue.enqueue(request, its);
      return { ...ticket, ...changes(ticket, backend) };
    },
  }));
}

/** Replaces one method until the answer is called. */
function replace<O extends object, K extends keyof O>(on: O, method: K, by: O[K]): () => void {
  const before = on[method];
  on[method] = by;
  return () => void (on[method] = before);
}

/** Wrong queues and notices. */
export const waitingMutants: readonly Mutant[] = [
  {
    title: "serves the last that came first",
    caught: "queue-order",
    arrange: () =>
      replace(Queue.prototype, "shift", function (this: Queue) {
        const last = this.all().at(-1);
        if (last !== undefined) this.remove(last);
        return last;
      }),
  },
  {
    title: "gives a newcomer the lease that is offered to a waiter",
    caught: "queue-no-barging",
    wrap: (backend) =>
      change(backend, {
        acquire: async (request, its) => {
          const shown = await backend.inspect(request.name, its);
          const offered = shown?.leftMs !== undefined && shown.leftMs <= 1_000;
          if (offered) await backend.break(request.name, shown.token!, its);
          return backend.acquire(request, its);
        },
      }),
  },
  {
    title: "never calls the turn on a free name",
    caught: "queue-free-name",
    wrap: queueing((queue, backend) => ({
      enqueue: async (request, its) => {
        const free = (await backend.inspect(request.name, its)) === null;
        const ticket = await queue.enqueue(request, its);
        return free ? { ...ticket, turn: () => new Promise<never>(() => {}) } : ticket;
      },
    })),
  },
  {
    title: "gives a repeated enqueue a second place",
    caught: "queue-idempotent",
    arrange: () => replace(Queue.prototype, "get", () => undefined),
  },
  {
    title: "waits for a release that never comes when the holder is dead",
    caught: "queue-expiry",
    wrap: queueing((queue) => ({
      enqueue: async (request, its) => {
        const ticket = await queue.enqueue(request, its);
        return { ...ticket, turn: () => new Promise<never>(() => {}) };
      },
      touch: async (tickets) => tickets.map(() => "waiting"),
    })),
  },
  {
    title: "makes an offer a lease before anybody renewed it",
    caught: "queue-offer-lapses",
    wrap: ticketing((ticket, backend) => ({
      turn: async (signal) => {
        const offer = await ticket.turn(signal);
        if (offer !== "gone") await backend.renew([offer], call);
        return offer;
      },
    })),
  },
  {
    title: "does not repeat an offer",
    caught: "queue-offer-repeated",
    wrap: queueing((queue) => ({
      touch: async (tickets, its) =>
        (await queue.touch(tickets, its)).map((seen) =>
          typeof seen === "object" ? "waiting" : seen,
        ),
    })),
  },
  {
    title: "forgets to pass the turn of a waiter that leaves",
    caught: "queue-leave",
    wrap: ticketing(() => ({ leave: async () => {} })),
  },
  {
    title: "says waiting of waiters that it does not know",
    caught: "queue-gone",
    wrap: queueing((queue) => ({
      touch: async (tickets, its) =>
        (await queue.touch(tickets, its)).map((seen) => (seen === "gone" ? "waiting" : seen)),
    })),
  },
  {
    title: "undoes the lease of an attempt and forgets its place",
    caught: "queue-attempt-undone",
    wrap: (backend) =>
      change(backend, {
        release: async (requests, its) => {
          const outcomes: Released[] = [];
          for (const request of requests) {
            const shown = await backend.inspect(request.name, its);
            const own = shown?.holder === request.holder;
            outcomes.push(...(own ? await backend.release([request], its) : ["not-held"] as const));
          }
          return outcomes;
        },
      }),
  },
  {
    title: "drops waiters that wait long, although they say that they live",
    caught: "queue-place-kept",
    arrange: () => {
      const { standing } = MemoryStore.prototype;
      return replace(MemoryStore.prototype, "standing", function (this: MemoryStore, name, holder) {
        return standing.call(this, name, holder, false);
      });
    },
  },
  {
    title: "goes on waiting when the signal is aborted",
    caught: "queue-turn-aborted",
    wrap: ticketing((ticket) => ({ turn: () => ticket.turn(new AbortController().signal) })),
  },
  {
    title: "subscribes and never tells",
    caught: "notify-wakes",
    wrap: (backend) => {
      const noticing = noticesOver(backend);
      if (noticing.waiting.kind !== "notify") throw new Error("no notices");
      const { subscribe } = noticing.waiting;
      const waiting = {
        ...noticing.waiting,
        subscribe: (name: string, _wake: () => void, its: typeof call) =>
          subscribe(name, () => {}, its),
      };
      return change(noticing, { waiting });
    },
  },
];
