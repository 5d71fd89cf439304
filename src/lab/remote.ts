/** A simulated store as a backend, seen from one process over the network. */
import type { Backend, Grant, Held, QueueWaiting, Sessions, Ticket } from "../core/backend.js";
import { OutcomeUnknownError, UnavailableError } from "../core/errors.js";
import type { FencingToken } from "../core/token.js";
import type { Network } from "./network.js";
import type { Keeping, SimulatedProcess } from "./process.js";
import { QUEUE_TOUCH_MS } from "./stores/lease-table.js";
import type { ModelQueue, StoreModel } from "./stores/model.js";

/** Where a store runs, as its clients find it: the server may change at a failover. */
export interface StoreAddress<T extends FencingToken | undefined> {
  readonly server: SimulatedProcess;
  readonly model: StoreModel<T>;
  /** Incarnation of the store, where it tells one. */
  readonly epoch?: string;
}

/** Finds the store: asked anew for every request. */
export type FindStore<T extends FencingToken | undefined> = () => StoreAddress<T>;

/** A ticket that was not touched for longer has been passed over, milliseconds. */
const UNTOUCHED_MS = 10_000;

/** Who is told of which name becoming free. */
const listeners = new WeakMap<object, Map<string, Set<() => void>>>();

/** The backend that a process uses. */
export function remoteBackend<T extends FencingToken | undefined>(
  client: SimulatedProcess,
  network: Network,
  find: FindStore<T>,
): Backend<T> {
  const { manifest, storeId } = find().model;
  let isClosed = false;

  async function ask<R>(what: string, step: (model: StoreModel<T>) => R): Promise<R> {
    if (isClosed) throw new UnavailableError("this backend was closed", { retryable: false });
    const { server, model } = find();
    return network.ask(client, server, what, () => step(model));
  }

  const marked = (grant: Grant<T>): Grant<T> => {
    const { epoch } = find();
    return epoch === undefined ? grant : { ...grant, storeEpoch: epoch };
  };

  const opened = new Map<string, Keeping>();
  const sessions: Sessions = {
    open: async (ttlMs) => {
      const session = await ask("open session", (model) => model.sessions!.open(ttlMs));
      opened.set(session.id, client.keep("session", session.ttlMs));
      return session;
    },
    keepAlive: async (id) => {
      const is = await ask("keep alive", (model) => model.sessions!.keepAlive(id));
      if (is === "gone") opened.get(id)?.end();
      else opened.get(id)?.again();
      return is;
    },
    close: async (id) => {
      await ask("close session", (model) => model.sessions!.close(id));
      opened.get(id)?.end();
    },
  };

  return {
    manifest,
    storeId,
    acquire: (request) =>
      ask("acquire", (model) => {
        const answer = model.acquire(request);
        return "grant" in answer ? { grant: marked(answer.grant) } : answer;
      }),
    renew: (grants) => ask("renew", (model) => grants.map((grant) => model.renew(grant))),
    release: (requests) =>
      ask("release", (model) => requests.map((request) => model.release(request))),
    break: (name, token) => ask("break", (model) => model.break(name, token)),
    inspect: (name) => ask("inspect", (model) => model.inspect(name)),
    async *list(prefix): AsyncGenerator<Held & { readonly name: string }> {
      yield* await ask("list", (model) => model.list(prefix));
    },
    ...(find().model.sessions === undefined ? {} : { sessions }),
    waiting: waitingOf(client, network, find),
    close: async () => void (isClosed = true),
  };
}

function waitingOf<T extends FencingToken | undefined>(
  client: SimulatedProcess,
  network: Network,
  find: FindStore<T>,
): Backend<T>["waiting"] {
  const { manifest } = find().model;
  if (manifest.waiting === "queue") return queueOf(client, network, find);
  if (manifest.waiting === "poll") return { kind: "poll" };
  return {
    kind: "notify",
    subscribe: async (name, wake, call) => {
      const { server, model } = find();
      const hear = (): void => network.send(server, client, "notice", wake);
      await network.ask(client, server, "subscribe", () => listen(model, name).add(hear));
      const leave = (): void => void listen(model, name).delete(hear);
      const end = (): void => network.send(client, server, "unsubscribe", leave);
      if (call.signal.aborted) {
        // Nobody waits for it any more, so nobody would end it.
        end();
        throw new OutcomeUnknownError(`the subscription to ${name} came too late`);
      }
      const kept = client.keep("subscription");
      return {
        [Symbol.asyncDispose]: async () => {
          kept.end();
          end();
        },
      };
    },
  };
}

/** Those who listen for a name at a store; the first makes the store tell them. */
function listen<T extends FencingToken | undefined>(
  model: StoreModel<T>,
  name: string,
): Set<() => void> {
  let byName = listeners.get(model);
  if (byName === undefined) {
    const all = (byName = new Map<string, Set<() => void>>());
    listeners.set(model, all);
    model.onFreed = (freed) => {
      for (const hear of [...(all.get(freed) ?? [])]) hear();
    };
  }
  let hearing = byName.get(name);
  if (hearing === undefined) byName.set(name, (hearing = new Set()));
  return hearing;
}

function queueOf<T extends FencingToken | undefined>(
  client: SimulatedProcess,
  network: Network,
  find: FindStore<T>,
): QueueWaiting<T> {
  const places = new Map<string, Place<T>>();
  const queue = (model: StoreModel<T>): ModelQueue<T> => model.queue!;
  return {
    kind: "queue",
    touchEveryMs: QUEUE_TOUCH_MS,
    enqueue: async (request) => {
      const { name, holder } = request;
      const place = places.get(holder) ?? new Place<T>(client.keep("ticket", UNTOUCHED_MS));
      places.set(holder, place);
      const { server, model } = find();
      await network.ask(client, server, "enqueue", () =>
        queue(model).enqueue(request, (what) =>
          network.send(server, client, "offer", () => place.hear(what)),
        ),
      );
      const ticket: Ticket<T> = {
        name,
        holder,
        turn: (signal) => place.turn(signal),
        leave: async () => {
          places.delete(holder);
          place.kept.end();
          const { server: at, model: then } = find();
          await network.ask(client, at, "leave", () => queue(then).leave(name, holder));
        },
      };
      return ticket;
    },
    touch: (tickets) => {
      const { server, model } = find();
      const asking = network.ask(client, server, "touch", () =>
        tickets.map(({ name, holder }) => queue(model).touch(name, holder)),
      );
      for (const { holder } of tickets) places.get(holder)?.kept.again();
      return asking;
    },
  };
}

/** A waiter's place: what it heard before it asked, and who asks. */
class Place<T extends FencingToken | undefined> {
  #heard: Grant<T> | "gone" | undefined;
  #resolve: ((what: Grant<T> | "gone") => void) | undefined;
  readonly kept: Keeping;

  constructor(kept: Keeping) {
    this.kept = kept;
  }

  hear(what: Grant<T> | "gone"): void {
    this.kept.end();
    if (this.#resolve === undefined) this.#heard = what;
    else this.#resolve(what);
    this.#resolve = undefined;
  }

  turn(signal: AbortSignal): Promise<Grant<T> | "gone"> {
    return new Promise((resolve, reject) => {
      signal.throwIfAborted();
      if (this.#heard !== undefined) {
        resolve(this.#heard);
        this.#heard = undefined;
        return;
      }
      const stop = (): void => {
        this.#resolve = undefined;
        reject(signal.reason as Error);
      };
      this.#resolve = (what) => {
        signal.removeEventListener("abort", stop);
        resolve(what);
      };
      signal.addEventListener("abort", stop, { once: true });
    });
  }
}
